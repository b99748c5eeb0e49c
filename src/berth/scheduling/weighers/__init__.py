"""Weighers: soft rules. `build` functions make them; a module has one weigher or a few alike."""
