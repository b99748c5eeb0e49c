"""The nouns and rules of scheduling; the domain imports the standard library only."""
