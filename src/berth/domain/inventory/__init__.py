"""Resource classes, providers and allocations: what there is, and what is held of it."""
