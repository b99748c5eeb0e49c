"""The composition root, which connects adapters to ports for each kind of process."""
