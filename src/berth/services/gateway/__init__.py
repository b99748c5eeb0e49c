"""The gateway: the part of the control plane that serves the agents of hosts."""
