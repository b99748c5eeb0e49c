"""The Identity API, as far as clients need it to find the others: tokens, the catalog, names."""
