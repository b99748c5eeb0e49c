"""Message buses."""
