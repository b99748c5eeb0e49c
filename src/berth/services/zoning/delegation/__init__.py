"""Instances that child zones build: delegation, its saga, and withdrawal."""
