"""Settings, policies and key files, read from files, the environment and options, and checked."""
