"""The API between zones, and the administration of child zones."""
