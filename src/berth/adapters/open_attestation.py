"""A client for Open Attestation, which Nova's TrustedFilter uses (nova-behaviour.md 2.6).

`POST <url>/PollHosts` with `{"count": 1, "hosts": ["node"]}` returns
`{"hosts": [{"host_name": "node", "trust_lvl": "trusted", "vtime": "2026-11-21T12:00:00Z"}]}`.
`vtime` is the time of the validation. A level is valid for a configured time after the validation.
This time should be longer than the time for which the service caches its results.
"""

import ssl
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path

import httpx
import msgspec

from berth.domain.compute.host import UNKNOWN_LEVEL, Attestation
from berth.domain.errors import InvalidInputError, UnavailableError
from berth.ports.clock import Clock

_ANSWER_BYTES_MAX = 1024 * 1024
_LEVEL_CHARS_MAX = 255
# The time format of some services: `Sat Nov 21 12:00:00 2026`, in UTC.
_OTHER_FORMAT = "%a %b %d %H:%M:%S %Y"


@dataclass(frozen=True, slots=True)
class AttestationAccess:
    """The address and the credentials of an attestation service.

    Attributes:
        url: the URL up to `/PollHosts`.
        auth_blob: the value of the header `x-auth-blob`; an empty one is not sent.
        ca_file: the file with the trusted certificates; None uses the system's.
        timeout_s: seconds to wait for the connection, and for each part of the response.
    """

    url: str
    auth_blob: str = ""
    ca_file: Path | None = None
    timeout_s: float = 10.0


class _State(msgspec.Struct):
    host_name: str
    trust_lvl: str
    vtime: str = ""


class _Answer(msgspec.Struct):
    hosts: list[_State]


_DECODER = msgspec.json.Decoder(_Answer)


class OpenAttester:
    """Queries an Open Attestation service; see the port `Attester`.

    Args:
        access: the address and the credentials of the service.
        clock: provides the time.
        valid_s: the seconds for which a level is valid after its validation.
        transport: the HTTP transport; None uses the network.

    Raises:
        InvalidInputError: `access.ca_file` cannot be read or contains no certificates.
    """

    def __init__(
        self,
        access: AttestationAccess,
        clock: Clock,
        *,
        valid_s: float = 60.0,
        transport: httpx.AsyncBaseTransport | None = None,
    ) -> None:
        self._access = access
        self._clock = clock
        self.valid_s = valid_s
        self._transport = transport
        self._context = _context(access.ca_file)

    async def attest(self, nodes: Sequence[str]) -> Mapping[str, Attestation]:
        """See `Attester.attest`."""
        try:
            answer = _DECODER.decode(await self._poll(nodes))
        except (httpx.HTTPError, httpx.InvalidURL, OSError) as error:
            reason = str(error) or type(error).__name__
            raise UnavailableError(
                f"cannot query the attestation service ({reason}); check attestation.url"
            ) from error
        except msgspec.MsgspecError as error:
            reason = (
                f"the attestation service sent an invalid response ({error}); check that "
                "attestation.url leads to an Open Attestation service"
            )
            raise UnavailableError(reason) from error
        asked = frozenset(nodes)
        return {one.host_name: self._read(one) for one in answer.hosts if one.host_name in asked}

    async def _poll(self, nodes: Sequence[str]) -> bytes:
        headers = {"accept": "application/json"}
        if self._access.auth_blob:
            headers["x-auth-blob"] = self._access.auth_blob
        async with (
            httpx.AsyncClient(
                verify=self._context, timeout=self._access.timeout_s, transport=self._transport
            ) as client,
            client.stream(
                "POST",
                f"{self._access.url.rstrip('/')}/PollHosts",
                json={"count": len(nodes), "hosts": list(nodes)},
                headers=headers,
            ) as response,
        ):
            response.raise_for_status()
            body = bytearray()
            async for chunk in response.aiter_bytes():
                body += chunk
                # The size is checked while reading: `content-length` may be missing or wrong.
                if len(body) > _ANSWER_BYTES_MAX:
                    raise httpx.DecodingError(f"the response has over {_ANSWER_BYTES_MAX} bytes")
        return bytes(body)

    def _read(self, state: _State) -> Attestation:
        now_s = self._clock.now_s()
        validated_s = _time_of(state.vtime)
        if validated_s is None:
            return Attestation(UNKNOWN_LEVEL, now_s + self.valid_s)
        # A service whose clock is ahead of this one must not extend the validity.
        return Attestation(
            state.trust_lvl[:_LEVEL_CHARS_MAX], min(validated_s, now_s) + self.valid_s
        )


def _time_of(text: str) -> float | None:
    """Return the Unix time that a text states, in UTC unless it names a zone; None if invalid."""
    for read in (datetime.fromisoformat, _read_other):
        try:
            found = read(text.strip())
            return (found if found.tzinfo else found.replace(tzinfo=UTC)).timestamp()
        except (ValueError, OverflowError):
            continue
    return None


def _read_other(text: str) -> datetime:
    return datetime.strptime(text, _OTHER_FORMAT).replace(tzinfo=UTC)


def _context(ca_file: Path | None) -> ssl.SSLContext:
    try:
        return ssl.create_default_context(cafile=ca_file)
    except OSError as error:
        reason = f"cannot read certificates from {ca_file} ({error}); check the file"
        raise InvalidInputError("attestation.ca_file", reason) from error
