"""Where a running Berth is and how to sign in: options, variables, contexts and clouds."""
