"""Plans: they place all instances of a request. Also inspections, capacity and offer merging."""
