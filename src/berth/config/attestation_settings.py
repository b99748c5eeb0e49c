"""Settings of the service that vouches for hosts."""

from dataclasses import dataclass, field
from pathlib import Path
from typing import Annotated

from msgspec import Meta

from berth.domain.errors import InvalidInputError

_Seconds = Annotated[float, Meta(gt=0, le=86_400)]


@dataclass(frozen=True, slots=True)
class AttestationSettings:
    """The service that vouches for hosts, for TrustedFilter; nobody is asked without a URL."""

    url: Annotated[str, Meta(pattern="^https?://")] | None = None
    """Where `/PollHosts` is, without that."""
    auth_blob: str = field(default="", repr=False)
    ca_file: Path | None = None
    timeout_s: _Seconds = 10.0
    valid_s: _Seconds = 60.0
    """How long a level counts after the service has found it."""

    def __post_init__(self) -> None:
        """Refuse answers that anybody could change.

        Raises:
            InvalidInputError: naming the key and what to do.
        """
        if (self.url or "").startswith("http:"):
            raise InvalidInputError(
                "attestation.url", "anybody on the way could make hosts trusted; use https"
            )
