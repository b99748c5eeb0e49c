"""What each operation of the Identity API does."""
