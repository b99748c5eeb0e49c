"""The protocols that services depend on and adapters implement, with the types they exchange."""
