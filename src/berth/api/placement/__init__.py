"""The Placement API: routes, request schemas, access policy, handlers and JSON views."""
