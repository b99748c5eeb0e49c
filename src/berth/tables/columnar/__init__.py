"""Columns, sets and indexes that know no domain noun: what the tables are built of."""
