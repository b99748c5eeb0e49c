"""The compute API, as OpenStack's clients speak it to Nova."""
