"""Evaluating a request: filter, weigh, rank, choose and explain. Pure, and without a cache."""
