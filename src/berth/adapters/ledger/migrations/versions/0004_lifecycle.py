"""Tables for migrations of instances between hosts and for the history of actions on instances."""

from typing import Final

import sqlalchemy as sa
from alembic import op
from sqlalchemy.dialects import postgresql

revision = "0004"
down_revision = "0003"
branch_labels = None
depends_on = None

_TEXT: Final = sa.Text().with_variant(postgresql.TEXT(collation="C"), "postgresql")


def _text(*names: str) -> list[sa.Column[str]]:
    return [sa.Column(name, _TEXT, nullable=False) for name in names]


def _seconds(*names: str) -> list[sa.Column[float]]:
    return [sa.Column(name, sa.Double(), nullable=False) for name in names]


def upgrade() -> None:
    """Create the tables `migrations` and `actions`."""
    op.create_table(
        "migrations",
        *_text("uuid"),
        sa.Column("number", sa.BigInteger(), nullable=False),
        *_text("instance_uuid", "kind", "status", "source_host", "destination_host"),
        *_text("project_id", "user_id"),
        *_seconds("created_at_s", "updated_at_s"),
        sa.Column("is_live", sa.Boolean(), nullable=False),
        *_text("body"),
        sa.PrimaryKeyConstraint("uuid", name=op.f("pk_migrations")),
    )
    op.create_index("ix_migrations_instance_uuid", "migrations", ["instance_uuid"])
    op.create_index("ix_migrations_newest", "migrations", ["created_at_s", "uuid"])
    where = sa.text("is_live")
    op.create_index(
        "ix_migrations_live", "migrations", ["uuid"], sqlite_where=where, postgresql_where=where
    )
    op.create_table(
        "actions",
        *_text("key", "instance_uuid"),
        *_seconds("started_at_s"),
        *_text("body"),
        sa.PrimaryKeyConstraint("key", name=op.f("pk_actions")),
    )
    op.create_index("ix_actions_instance_uuid", "actions", ["instance_uuid"])
