"""Request and response bodies of the Identity API."""
