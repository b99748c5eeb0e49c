"""Placement: pending requests are decided, claimed and committed."""
