"""Tables for child zones and for the instances that were delegated to them."""

from typing import Final

import sqlalchemy as sa
from alembic import op
from sqlalchemy.dialects import postgresql

revision = "0007"
down_revision = "0006"
branch_labels = None
depends_on = None

readable_by = "0004"
"""An older version of Berth ignores kinds of records that it does not know."""

_TEXT: Final = sa.Text().with_variant(postgresql.TEXT(collation="C"), "postgresql")


def _text(*names: str) -> list[sa.Column[str]]:
    return [sa.Column(name, _TEXT, nullable=False) for name in names]


def upgrade() -> None:
    """Create the tables `zones` and `errands`."""
    op.create_table(
        "zones",
        *_text("zone_id", "name", "body"),
        sa.PrimaryKeyConstraint("zone_id", name=op.f("pk_zones")),
    )
    op.create_table(
        "errands",
        *_text("instance_uuid", "project_id", "reservation_id", "request_id", "body"),
        sa.PrimaryKeyConstraint("instance_uuid", name=op.f("pk_errands")),
    )
    for name in ("project_id", "reservation_id", "request_id"):
        op.create_index(f"ix_errands_{name}", "errands", [name])
