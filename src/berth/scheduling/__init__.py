"""Pure policy: the choice of the hosts that may take a request, and of the best among them."""
