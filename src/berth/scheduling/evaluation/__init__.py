"""The evaluation of a request without a cache: filter, weigh, rank, choose and explain."""
