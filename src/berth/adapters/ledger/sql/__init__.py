"""What the SQL ledgers share: the schema, and how records become rows and rows records."""
