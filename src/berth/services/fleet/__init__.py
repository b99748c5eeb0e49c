"""The fleet: hosts, aggregates and allocation ratios, as operators and agents set them."""
