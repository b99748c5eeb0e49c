"""The decision service, and what the decisions of concurrent schedulers share."""
