"""Berth decides which host each instance runs on, claims the room, and has it started."""

__version__ = "0.1.0"
