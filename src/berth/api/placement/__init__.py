"""The Placement API: a table of actions, what each takes, and who may do it."""
