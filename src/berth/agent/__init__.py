"""The process on a compute host: reports the host, and builds and destroys its instances."""
