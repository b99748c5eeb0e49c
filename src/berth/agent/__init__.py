"""The agent of a compute host, which reports the host and carries out its instances' tasks."""
