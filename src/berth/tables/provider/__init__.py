"""The provider table: every resource provider as columns, for the Placement API."""
