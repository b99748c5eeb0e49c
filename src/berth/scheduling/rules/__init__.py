"""What a filter and a weigher are, and the pieces that several of them are made of."""
