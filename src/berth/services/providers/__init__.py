"""The services behind the Placement API, and the guards under which records are saved."""
