"""Cost functions of the least-cost scheduler, one a module; the lowest sum wins."""
