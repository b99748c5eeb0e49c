"""The table for the maintenance of hosts."""

from typing import Final

import sqlalchemy as sa
from alembic import op
from sqlalchemy.dialects import postgresql

revision = "0013"
down_revision = "0012"
branch_labels = None
depends_on = None

readable_by = "0004"
"""An older version of Berth ignores kinds of records that it does not know."""

_TEXT: Final = sa.Text().with_variant(postgresql.TEXT(collation="C"), "postgresql")


def upgrade() -> None:
    """Create the table `maintenances`."""
    op.create_table(
        "maintenances",
        sa.Column("host", _TEXT, nullable=False),
        sa.Column("body", _TEXT, nullable=False),
        sa.PrimaryKeyConstraint("host", name=op.f("pk_maintenances")),
    )
