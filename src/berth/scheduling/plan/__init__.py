"""Plans: all instances of a request placed one after another, counted and inspected."""
