"""Indexes for the migrations that have a given host as their source or as their destination."""

from alembic import op

revision = "0006"
down_revision = "0005"
branch_labels = None
depends_on = None

readable_by = "0004"
"""An index changes nothing for an older version of Berth."""


def upgrade() -> None:
    """Create one index for the source and one for the destination."""
    for side in ("source", "destination"):
        op.create_index(f"ix_migrations_{side}", "migrations", [f"{side}_host", "created_at_s"])
