"""The table for the audit log."""

from typing import Final

import sqlalchemy as sa
from alembic import op
from sqlalchemy.dialects import postgresql

revision = "0012"
down_revision = "0011"
branch_labels = None
depends_on = None

readable_by = "0004"
"""An older version of Berth ignores kinds of records that it does not know."""

_TEXT: Final = sa.Text().with_variant(postgresql.TEXT(collation="C"), "postgresql")


def upgrade() -> None:
    """Create the table `audit_blocks`."""
    op.create_table(
        "audit_blocks",
        sa.Column("key", _TEXT, nullable=False),
        sa.Column("body", _TEXT, nullable=False),
        sa.PrimaryKeyConstraint("key", name=op.f("pk_audit_blocks")),
    )
