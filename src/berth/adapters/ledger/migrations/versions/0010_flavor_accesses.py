"""The table for the projects that may use private flavors."""

from typing import Final

import sqlalchemy as sa
from alembic import op
from sqlalchemy.dialects import postgresql

revision = "0010"
down_revision = "0009"
branch_labels = None
depends_on = None

readable_by = "0004"
"""An older version of Berth ignores kinds of records that it does not know."""

_TEXT: Final = sa.Text().with_variant(postgresql.TEXT(collation="C"), "postgresql")


def upgrade() -> None:
    """Create the table `flavor_accesses`."""
    op.create_table(
        "flavor_accesses",
        sa.Column("flavor_id", _TEXT, nullable=False),
        sa.Column("body", _TEXT, nullable=False),
        sa.PrimaryKeyConstraint("flavor_id", name=op.f("pk_flavor_accesses")),
    )
