"""The script in which Alembic migrates, in one transaction on the connection that Berth passes."""

from alembic import context

from berth.adapters.ledger.schema_migration import REVISION_TABLE
from berth.adapters.ledger.sql.schema import metadata

context.configure(
    connection=context.config.attributes["connection"],
    target_metadata=metadata,
    version_table=REVISION_TABLE,
    render_as_batch=True,
)
with context.begin_transaction():
    context.run_migrations()
