"""The host table: every host that a decision may choose, as columns."""
