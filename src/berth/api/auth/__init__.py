"""Authentication: credentials, tokens, and the users and projects that clients can look up."""
