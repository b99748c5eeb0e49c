"""Zones over HTTP: what parents ask of a zone, and what operators tell it of its children."""
