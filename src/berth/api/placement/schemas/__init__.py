"""JSON Schemas of bodies and queries by microversion, one module per kind of object."""
