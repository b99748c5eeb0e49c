"""What the SQL ledgers share: the schema, the statements, and the way between records and rows."""
