"""Child zones, the offers they make, and the orders they take."""
