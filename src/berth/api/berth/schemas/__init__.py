"""What clients of Berth's own API get."""
