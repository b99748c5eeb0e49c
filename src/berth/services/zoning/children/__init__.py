"""Child zones: their records, their state, and what a zone tells of itself."""
