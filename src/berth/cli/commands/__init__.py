"""The commands of `berth`, one module a noun; each is imported when it runs."""
