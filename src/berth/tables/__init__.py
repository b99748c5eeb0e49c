"""The columns that every decision reads: one numpy array a property, one row a host."""
