"""Pure policy: which hosts may take a request, and which of them is best."""
