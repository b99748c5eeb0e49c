"""The initial schema."""

from typing import Final

import sqlalchemy as sa
from alembic import op
from sqlalchemy.dialects import postgresql

revision = "0001"
down_revision = None
branch_labels = None
depends_on = None

_DOUBLE: Final[sa.Double[float]] = sa.Double()
_TEXT: Final = sa.Text().with_variant(postgresql.TEXT(collation="C"), "postgresql")


def upgrade() -> None:
    """Create all tables, and the one row of `head`."""
    _create_head()
    _create_fleet()
    _create_capacity()
    _create_instances()
    _create_requests()
    op.execute("INSERT INTO head (id, version, feed_floor) VALUES (1, 0, 0)")


def _create_head() -> None:
    op.create_table(
        "head",
        sa.Column("id", sa.Integer(), nullable=False),
        sa.CheckConstraint("id = 1", name=op.f("ck_head_single_row")),
        sa.Column("version", sa.BigInteger(), nullable=False),
        sa.Column("feed_floor", sa.BigInteger(), nullable=False),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_head")),
    )
    op.create_table(
        "counters",
        sa.Column("kind", _TEXT, nullable=False),
        sa.Column("last", sa.BigInteger(), nullable=False),
        sa.PrimaryKeyConstraint("kind", name=op.f("pk_counters")),
    )
    op.create_table(
        "changes",
        sa.Column("version", sa.BigInteger(), nullable=False),
        sa.Column("seq", sa.Integer(), nullable=False),
        sa.Column("kind", _TEXT, nullable=False),
        sa.Column("body", _TEXT, nullable=False),
        sa.PrimaryKeyConstraint("version", "seq", name=op.f("pk_changes")),
        sqlite_with_rowid=False,
    )
    op.create_table(
        "claim_keys",
        sa.Column("key", _TEXT, nullable=False),
        sa.Column("version", sa.BigInteger(), nullable=False),
        sa.Column("at_s", _DOUBLE, nullable=False),
        sa.PrimaryKeyConstraint("key", name=op.f("pk_claim_keys")),
    )
    op.create_index(op.f("ix_claim_keys_at_s"), "claim_keys", ["at_s"])


def _create_capacity() -> None:
    op.create_table(
        "providers",
        sa.Column("uuid", _TEXT, nullable=False),
        sa.Column("name", _TEXT, nullable=False),
        sa.Column("parent_uuid", _TEXT, nullable=True),
        sa.Column("generation", sa.BigInteger(), nullable=False),
        sa.Column("body", _TEXT, nullable=False),
        sa.PrimaryKeyConstraint("uuid", name=op.f("pk_providers")),
    )
    op.create_table(
        "inventories",
        sa.Column("provider_uuid", _TEXT, nullable=False),
        sa.Column("resource_class", _TEXT, nullable=False),
        sa.Column("total", sa.BigInteger(), nullable=False),
        sa.Column("reserved", sa.BigInteger(), nullable=False),
        sa.Column("min_unit", sa.BigInteger(), nullable=False),
        sa.Column("max_unit", sa.BigInteger(), nullable=False),
        sa.Column("step_size", sa.BigInteger(), nullable=False),
        sa.Column("allocation_ratio", _DOUBLE, nullable=False),
        sa.Column("capacity", sa.BigInteger(), nullable=False),
        sa.Column("used", sa.BigInteger(), nullable=False),
        sa.CheckConstraint("used >= 0", name=op.f("ck_inventories_used_not_negative")),
        sa.ForeignKeyConstraint(
            ["provider_uuid"], ["providers.uuid"], name=op.f("fk_inventories_provider_uuid")
        ),
        sa.PrimaryKeyConstraint("provider_uuid", "resource_class", name=op.f("pk_inventories")),
        sqlite_with_rowid=False,
    )
    op.create_table(
        "allocations",
        sa.Column("consumer_uuid", _TEXT, nullable=False),
        sa.Column("provider_uuid", _TEXT, nullable=False),
        sa.Column("amounts", _TEXT, nullable=False),
        sa.ForeignKeyConstraint(
            ["provider_uuid"], ["providers.uuid"], name=op.f("fk_allocations_provider_uuid")
        ),
        sa.PrimaryKeyConstraint("consumer_uuid", "provider_uuid", name=op.f("pk_allocations")),
        sqlite_with_rowid=False,
    )
    op.create_index("ix_allocations_provider_uuid", "allocations", ["provider_uuid"])


def _create_instances() -> None:
    op.create_table(
        "instances",
        sa.Column("uuid", _TEXT, nullable=False),
        sa.Column("project_id", _TEXT, nullable=False),
        sa.Column("name", _TEXT, nullable=False),
        sa.Column("reservation_id", _TEXT, nullable=False),
        sa.Column("request_id", _TEXT, nullable=False),
        sa.Column("group_uuid", _TEXT, nullable=True),
        sa.Column("created_at_s", _DOUBLE, nullable=False),
        sa.Column("host", _TEXT, nullable=True),
        sa.Column("status", _TEXT, nullable=False),
        sa.Column("updated_at_s", _DOUBLE, nullable=False),
        sa.Column("is_live", sa.Boolean(), nullable=False),
        sa.Column("revision", sa.BigInteger(), nullable=False),
        sa.Column("body", _TEXT, nullable=False),
        sa.PrimaryKeyConstraint("uuid", name=op.f("pk_instances")),
    )
    op.create_index(
        op.f("ix_instances_group_uuid"),
        "instances",
        ["group_uuid"],
        sqlite_where=sa.text("group_uuid IS NOT NULL"),
        postgresql_where=sa.text("group_uuid IS NOT NULL"),
    )
    op.create_index(
        op.f("ix_instances_host"),
        "instances",
        ["host"],
        sqlite_where=sa.text("host IS NOT NULL"),
        postgresql_where=sa.text("host IS NOT NULL"),
    )
    op.create_index(op.f("ix_instances_name"), "instances", ["name"])
    op.create_index(
        "ix_instances_newest",
        "instances",
        ["created_at_s", "uuid"],
        sqlite_where=sa.text("status <> 'DELETED'"),
        postgresql_where=sa.text("status <> 'DELETED'"),
    )
    op.create_index("ix_instances_project", "instances", ["project_id", "created_at_s", "uuid"])
    op.create_index(op.f("ix_instances_request_id"), "instances", ["request_id"])
    op.create_index(op.f("ix_instances_reservation_id"), "instances", ["reservation_id"])
    op.create_index("ix_instances_status", "instances", ["status", "created_at_s", "uuid"])
    op.create_index(op.f("ix_instances_updated_at_s"), "instances", ["updated_at_s"])


def _create_requests() -> None:
    op.create_table(
        "pending_requests",
        sa.Column("request_id", _TEXT, nullable=False),
        sa.Column("accepted_at_s", _DOUBLE, nullable=False),
        sa.Column("body", _TEXT, nullable=False),
        sa.PrimaryKeyConstraint("request_id", name=op.f("pk_pending_requests")),
    )
    op.create_table(
        "decisions",
        sa.Column("request_id", _TEXT, nullable=False),
        sa.Column("decided_at_s", _DOUBLE, nullable=False),
        sa.Column("body", _TEXT, nullable=False),
        sa.PrimaryKeyConstraint("request_id", name=op.f("pk_decisions")),
    )
    op.create_index("ix_decisions_newest", "decisions", ["decided_at_s", "request_id"])


def _create_fleet() -> None:
    op.create_table(
        "hosts",
        sa.Column("uuid", _TEXT, nullable=False),
        sa.Column("name", _TEXT, nullable=False),
        sa.Column("node", _TEXT, nullable=False),
        sa.Column("body", _TEXT, nullable=False),
        sa.PrimaryKeyConstraint("uuid", name=op.f("pk_hosts")),
    )
    op.create_table(
        "services",
        sa.Column("host", _TEXT, nullable=False),
        sa.Column("last_seen_s", _TEXT, nullable=False),
        sa.Column("body", _TEXT, nullable=False),
        sa.PrimaryKeyConstraint("host", name=op.f("pk_services")),
    )
    op.create_table(
        "aggregates",
        sa.Column("aggregate_id", _TEXT, nullable=False),
        sa.Column("name", _TEXT, nullable=False),
        sa.Column("body", _TEXT, nullable=False),
        sa.PrimaryKeyConstraint("aggregate_id", name=op.f("pk_aggregates")),
    )
    op.create_table(
        "server_groups",
        sa.Column("uuid", _TEXT, nullable=False),
        sa.Column("name", _TEXT, nullable=False),
        sa.Column("body", _TEXT, nullable=False),
        sa.PrimaryKeyConstraint("uuid", name=op.f("pk_server_groups")),
    )
    op.create_table(
        "flavors",
        sa.Column("flavor_id", _TEXT, nullable=False),
        sa.Column("name", _TEXT, nullable=False),
        sa.Column("body", _TEXT, nullable=False),
        sa.PrimaryKeyConstraint("flavor_id", name=op.f("pk_flavors")),
    )
