"""The schema names every column that there is."""

from berth.tables.columns import ClassColumns, HostColumns
from berth.tables.schema import CLASS_COLUMNS, HOST_COLUMNS


def test_every_column_has_an_array_and_a_type() -> None:
    """What the classes declare and what the schema lists are the same."""
    assert set(HostColumns.__annotations__) == {column.name for column in HOST_COLUMNS}
    assert set(ClassColumns.__annotations__) == {column.name for column in CLASS_COLUMNS}
    for column in HOST_COLUMNS:
        assert getattr(HostColumns(3), column.name).dtype == column.dtype
    for column in CLASS_COLUMNS:
        assert getattr(ClassColumns(3), column.name).dtype == column.dtype
