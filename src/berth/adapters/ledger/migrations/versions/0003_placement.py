"""Tables for the Placement API: consumers, resource classes, traits, and inventory generations."""

from typing import Final

import sqlalchemy as sa
from alembic import op
from sqlalchemy.dialects import postgresql

revision = "0003"
down_revision = "0002"
branch_labels = None
depends_on = None

_TEXT: Final = sa.Text().with_variant(postgresql.TEXT(collation="C"), "postgresql")


def upgrade() -> None:
    """Create the tables and the column, and make every follower load a new snapshot.

    Followers need a snapshot because the usage in the existing feed has no generations. Batches in
    the write-ahead log stay there, because a checkpoint can still write them: it writes only
    columns that the tables had before.
    """
    op.create_table(
        "consumers",
        sa.Column("uuid", _TEXT, nullable=False),
        sa.Column("project_id", _TEXT, nullable=False),
        sa.Column("user_id", _TEXT, nullable=False),
        sa.Column("generation", sa.BigInteger(), nullable=False),
        sa.Column("body", _TEXT, nullable=False),
        sa.PrimaryKeyConstraint("uuid", name=op.f("pk_consumers")),
    )
    op.create_index("ix_consumers_project", "consumers", ["project_id", "user_id"])
    for name in ("resource_classes", "traits"):
        op.create_table(
            name,
            sa.Column("name", _TEXT, nullable=False),
            sa.Column("number", sa.BigInteger(), nullable=False),
            sa.Column("body", _TEXT, nullable=False),
            sa.PrimaryKeyConstraint("name", name=op.f(f"pk_{name}")),
        )
    op.add_column(
        "inventories",
        sa.Column("generation", sa.BigInteger(), server_default="0", nullable=False),
    )
    op.execute("DELETE FROM changes")
    op.execute("UPDATE head SET feed_floor = version")
