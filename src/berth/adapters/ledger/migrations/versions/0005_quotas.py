"""The table for quotas of projects, and columns for the footprints of instances."""

from typing import Final

import sqlalchemy as sa
from alembic import op
from sqlalchemy.dialects import postgresql

revision = "0005"
down_revision = "0004"
branch_labels = None
depends_on = None

readable_by = "0004"
"""Existing columns are unchanged; older versions of Berth do not write the footprint columns."""

_TEXT: Final = sa.Text().with_variant(postgresql.TEXT(collation="C"), "postgresql")


def upgrade() -> None:
    """Create the table and the columns.

    The columns stay NULL for existing instances, whose footprints are read from their bodies.
    """
    op.create_table(
        "quotas",
        sa.Column("project_id", _TEXT, nullable=False),
        sa.Column("body", _TEXT, nullable=False),
        sa.PrimaryKeyConstraint("project_id", name=op.f("pk_quotas")),
    )
    for name in ("vcpus", "memory_mb", "counted_revision"):
        op.add_column("instances", sa.Column(name, sa.BigInteger(), nullable=True))
    if op.get_context().dialect.name == "postgresql":
        where = sa.text("status <> 'DELETED'")
        op.create_index("ix_instances_counted", "instances", ["project_id"], postgresql_where=where)
