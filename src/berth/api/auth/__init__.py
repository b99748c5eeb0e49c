"""Authentication: credentials, tokens, and the directory of users and projects."""
