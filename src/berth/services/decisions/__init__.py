"""The decision service, and the coordination of concurrent decisions."""
