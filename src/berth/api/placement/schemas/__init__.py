"""What bodies and queries may hold, by noun and by microversion."""
