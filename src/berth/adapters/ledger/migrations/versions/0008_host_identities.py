"""Tables for the identities of hosts, and for the heartbeats that gateways receive."""

from typing import Final

import sqlalchemy as sa
from alembic import op
from sqlalchemy.dialects import postgresql

revision = "0008"
down_revision = "0007"
branch_labels = None
depends_on = None

readable_by = "0004"
"""An older version of Berth ignores kinds of records that it does not know."""

_TEXT: Final = sa.Text().with_variant(postgresql.TEXT(collation="C"), "postgresql")


def upgrade() -> None:
    """Create the tables `host_identities` and `heartbeats`."""
    op.create_table(
        "host_identities",
        sa.Column("host", _TEXT, nullable=False),
        sa.Column("body", _TEXT, nullable=False),
        sa.PrimaryKeyConstraint("host", name=op.f("pk_host_identities")),
    )
    op.create_table(
        "heartbeats",
        sa.Column("gateway", _TEXT, nullable=False),
        sa.Column("number", sa.BigInteger(), nullable=False),
        sa.Column("body", _TEXT, nullable=False),
        sa.PrimaryKeyConstraint("gateway", name=op.f("pk_heartbeats")),
    )
