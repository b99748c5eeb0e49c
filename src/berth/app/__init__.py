"""The composition root: the adapters behind the ports, process by process."""
