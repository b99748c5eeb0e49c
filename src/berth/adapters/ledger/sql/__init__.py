"""The parts that the SQL ledgers share: the schema, the statements, and the rows of a batch."""
