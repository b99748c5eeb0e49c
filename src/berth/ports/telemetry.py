"""What the services tell about themselves, for whoever operates them."""

from typing import Protocol


class Telemetry(Protocol):
    """Takes events and failures. Values never hold secrets."""

    def event(self, name: str, **fields: object) -> None:
        """Tell that something happened, in the past tense (`claim_conflicted`)."""
        ...

    def failure(self, name: str, error: BaseException, **fields: object) -> None:
        """Tell that something went wrong that nobody else will be told of."""
        ...
