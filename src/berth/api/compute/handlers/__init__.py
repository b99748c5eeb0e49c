"""What each operation of the compute API does, one noun a module."""
