"""Places requests: the placement service, pending requests, and the counts of failed builds."""
