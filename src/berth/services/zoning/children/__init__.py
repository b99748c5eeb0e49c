"""Child zones: their records and state, and the capabilities that a zone reports to parents."""
