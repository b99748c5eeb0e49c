"""What clients of the compute API send and get."""
