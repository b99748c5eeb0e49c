"""Cost functions of the least-cost scheduler, one per module; the lowest sum wins."""
