"""What each operation of Berth's own API does, one noun a module."""
