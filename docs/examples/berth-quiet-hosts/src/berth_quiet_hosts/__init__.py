"""A filter for Berth, as a package of its own."""
