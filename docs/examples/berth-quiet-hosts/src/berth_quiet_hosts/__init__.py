"""A filter and a cost function for Berth, as a package of its own."""
