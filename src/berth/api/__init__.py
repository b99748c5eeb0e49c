"""The HTTP APIs: OpenStack's compute, identity, image and Placement APIs, and Berth's own."""
