"""Indexes that find the migrations of a host by either side."""

from alembic import op

revision = "0006"
down_revision = "0005"
branch_labels = None
depends_on = None

readable_by = "0004"
"""An older Berth need not know of an index."""


def upgrade() -> None:
    """Create an index for each side."""
    for side in ("source", "destination"):
        op.create_index(f"ix_migrations_{side}", "migrations", [f"{side}_host", "created_at_s"])
