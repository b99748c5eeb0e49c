"""The use cases of Berth, in terms of ports; they contain no SQL and use no framework."""
