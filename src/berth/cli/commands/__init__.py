"""The commands of `berth`, one module per group, imported when a command of it runs."""
