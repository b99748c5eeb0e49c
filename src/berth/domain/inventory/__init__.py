"""Resource classes, providers, and the allocations that consumers hold on them."""
