"""The write-ahead log (`daybook`), which holds committed batches before the other tables do."""

from typing import Final

import sqlalchemy as sa
from alembic import op

revision = "0002"
down_revision = "0001"
branch_labels = None
depends_on = None


_BIG: Final = sa.BigInteger().with_variant(sa.Integer(), "sqlite")


def upgrade() -> None:
    """Create the table `daybook`."""
    op.create_table(
        "daybook",
        sa.Column("first", _BIG, autoincrement=False, nullable=False),
        sa.Column("last", sa.BigInteger(), nullable=False),
        sa.Column("body", sa.LargeBinary(), nullable=False),
        sa.PrimaryKeyConstraint("first", name=op.f("pk_daybook")),
    )
