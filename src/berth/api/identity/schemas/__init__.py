"""What clients of the Identity API send and get."""
