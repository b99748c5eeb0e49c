"""Use cases: what Berth does, in terms of ports; no SQL and no framework."""
