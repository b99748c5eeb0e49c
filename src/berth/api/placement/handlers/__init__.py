"""What the actions do, one module a noun."""
