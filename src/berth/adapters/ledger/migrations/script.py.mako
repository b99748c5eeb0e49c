"""${message}."""

from alembic import op
import sqlalchemy as sa
${imports if imports else ""}

revision = ${repr(up_revision)}
down_revision = ${repr(down_revision)}
branch_labels = None
depends_on = None

readable_by = ${repr(up_revision)}
"""The oldest revision whose Berth can use these tables; older if they only gain something."""


def upgrade() -> None:
    """Bring the schema from ${repr(down_revision)} to ${repr(up_revision)}."""
    ${upgrades if upgrades else "pass"}
