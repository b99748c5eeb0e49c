"""Requests: accepted, permitted, held against quotas, and sent to schedulers."""
