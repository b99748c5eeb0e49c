"""The host table: every host as a row of columns, for the scheduler."""
