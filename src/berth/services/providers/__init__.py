"""Resource providers: inventories, allocations and names, as the Placement API writes them."""
