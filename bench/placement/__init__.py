"""The Placement API beside the real Placement, both on PostgreSQL."""
