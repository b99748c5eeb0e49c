"""Columns, sets and indexes from which the tables are built."""
