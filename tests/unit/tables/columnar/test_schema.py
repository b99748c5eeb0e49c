"""Tests that the schema lists all columns."""

from berth.tables.columnar.class_columns import ClassColumns
from berth.tables.columnar.schema import CLASS_COLUMNS, HOST_COLUMNS
from berth.tables.host.host_columns import HostColumns


def test_every_column_has_an_array_and_a_type() -> None:
    """The classes declare exactly the columns of the schema that are not derived."""
    for columns, listed in ((HostColumns, HOST_COLUMNS), (ClassColumns, CLASS_COLUMNS)):
        kept = {column.name for column in listed if not column.is_derived}
        assert set(columns.__annotations__) == kept
    for column in HOST_COLUMNS:
        assert getattr(HostColumns(3), column.name).dtype == column.dtype
    for column in CLASS_COLUMNS:
        assert getattr(ClassColumns(3), column.name).dtype == column.dtype
