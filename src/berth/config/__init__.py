"""Settings and policies: read once from files, environment and options, checked, then passed."""
