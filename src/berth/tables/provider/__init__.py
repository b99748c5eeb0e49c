"""The provider table: every resource provider as a row of columns, for the Placement API."""
