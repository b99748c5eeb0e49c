"""The use cases of the Placement API, and the guards under which records are saved."""
