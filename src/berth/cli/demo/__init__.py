"""The demonstrations that `berth demo`, `berth demo-zones` and `berth replay` show."""
