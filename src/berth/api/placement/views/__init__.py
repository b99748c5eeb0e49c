"""JSON views of the Placement API, one module per kind of object."""
