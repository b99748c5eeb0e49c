"""How nouns are written as JSON."""
