"""The gateway over the network: the frames, and the two ends of a session with an agent."""
