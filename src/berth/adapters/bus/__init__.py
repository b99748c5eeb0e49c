"""The adapters of the message bus."""
