"""Child zones, the offers that zones make, and the orders that parents send."""
