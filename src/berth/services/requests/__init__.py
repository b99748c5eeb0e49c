"""Requests before they are placed: orders, permissions, quotas, and repeats in child zones."""
