"""The write-ahead log of the SQL ledgers, and reads of tables that may lag behind it."""
