"""Signed assertions that name the tenant for whom a parent zone sends a request to its child.

Threat model. A child is another organisation's deployment and trusts a parent only with the
parent's own tenants. The password of a parent's account gives access to the API but to no tenant's
data. An assertion therefore binds parent, child, project, user, method, path and body, so that

- a third party that holds the password cannot act for any tenant,
- a child cannot present a parent's request to another zone (`zone`),
- a proxy cannot move an assertion to another request (`asks`),
- a recorded request cannot be replayed: a zone accepts a `nonce` once (`used_assertions`), or once
  in each process if the request only reads, and `ends_at_s` bounds how long nonces must be
  remembered.

The HTTP header, the key file and the wire format call an assertion a "statement".
"""

import hashlib
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Final, Protocol

import msgspec
from cryptography.exceptions import InvalidSignature
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PublicKey

from berth.domain.errors import BerthError, UnavailableError
from berth.ports.zones import ForwardedRequest
from berth.services.crypto.base64url import raw_of, url_text_of

# An assertion that ends more than this many seconds from now is rejected. A writer uses half of the
# span, so the clocks of two zones may differ by up to 30 s either way.
LIFE_S: Final = 60.0
# An assertion with more characters than this is rejected before it is parsed, because its sender is
# still unknown.
_TEXT_MAX: Final = 4096
# Random nonces of this many bytes do not collide, so writers need no shared counter.
_NONCE_BYTES: Final = 16
# At most this many nonces are remembered. Only trusted parents get as far as a nonce; the limit
# bounds the memory that they can use up within a minute.
_NONCES_MAX: Final = 200_000
# Prefix of all signed and digested bytes: a zone's key signs nothing else in this form.
_CONTEXT: Final = b"berth zone statement 1\0"
_FORM: Final = "it is missing or malformed; send it in the header X-Berth-Zone-Statement"


class ZoneAssertionError(BerthError):
    """A request between zones carries no valid assertion.

    Args:
        reason: the fault in the assertion, without anything that its sender does not know.
    """

    def __init__(self, reason: str) -> None:
        super().__init__(f"the parent zone's assertion is invalid: {reason}")
        self.reason = reason


@dataclass(frozen=True, slots=True)
class AssertedRequest:
    """The parts of an HTTP request that an assertion covers."""

    method: str
    path: str
    body: bytes = b""


class ZoneAssertion(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """The content of an assertion.

    Attributes:
        parent: the name of the zone that signs.
        zone: the name of the zone that the request is sent to.
        project_id: the tenant's project.
        user_id: the tenant's user.
        asks: a digest of method, path and body.
        ends_at_s: the time of expiry, in Unix seconds.
        nonce: random text that is accepted once.
    """

    parent: str
    zone: str
    project_id: str
    user_id: str
    asks: str
    ends_at_s: float
    nonce: str


_encoder: Final = msgspec.json.Encoder()
_decoder: Final = msgspec.json.Decoder(ZoneAssertion)


class Signer(Protocol):
    """Signs with a zone's private key, like an `Ed25519PrivateKey`."""

    def sign(self, data: bytes, /) -> bytes:
        """Return the signature of `data`."""
        ...


class AssertionWriter:
    """Writes the assertions of one zone for its children.

    Args:
        name: the name by which children know this zone.
        key: this zone's private key.
        now_s: returns the Unix time in seconds.
        random_bytes: returns the given number of random bytes.
    """

    def __init__(
        self,
        name: str,
        key: Signer,
        now_s: Callable[[], float],
        random_bytes: Callable[[int], bytes],
    ) -> None:
        self._name = name
        self._key = key
        self._now_s = now_s
        self._random_bytes = random_bytes

    def write(
        self, zone: str, asked: AssertedRequest | ForwardedRequest, *, project_id: str, user_id: str
    ) -> str:
        """Return the signed assertion for one request to a zone, as the value of its header.

        Args:
            zone: the name of the zone that the request is sent to.
            asked: the request.
            project_id: the tenant's project.
            user_id: the tenant's user.
        """
        statement = ZoneAssertion(
            parent=self._name,
            zone=zone,
            project_id=project_id,
            user_id=user_id,
            asks=_digest_of(asked),
            ends_at_s=self._now_s() + LIFE_S / 2,
            nonce=url_text_of(self._random_bytes(_NONCE_BYTES)),
        )
        content = _encoder.encode(statement)
        return f"{url_text_of(content)}.{url_text_of(self._key.sign(_CONTEXT + content))}"


class AssertionVerifier:
    """Verifies the assertions of trusted parents.

    A verifier remembers the nonces that its own process has seen. `UsedAssertions` records them for
    all processes of the zone.

    Args:
        zone: the name of this zone.
        parents: returns the public keys of each trusted parent by its name; a parent has several
            keys while one is being rotated.
        now_s: returns the Unix time in seconds.
    """

    def __init__(
        self,
        zone: str,
        parents: Callable[[], Mapping[str, Sequence[Ed25519PublicKey]]],
        now_s: Callable[[], float],
    ) -> None:
        self._zone = zone
        self._parents = parents
        self._now_s = now_s
        # Used nonces with the expiry of their assertions, in order of use.
        self._nonces: dict[str, float] = {}

    def verify(self, text: str, asked: AssertedRequest) -> ZoneAssertion:
        """Verify an assertion for a request, use up its nonce, and return its content.

        Raises:
            ZoneAssertionError: the assertion is malformed, no trusted parent signed it for this
                request and zone, it has expired, it is valid for too long, or it was used before.
            UnavailableError: too many nonces are remembered.
        """
        statement = self.verify_signature(text)
        self.redeem(statement, asked)
        return statement

    def verify_signature(self, text: str) -> ZoneAssertion:
        """Return the content of an assertion after checking its signature, zone and time.

        The caller then reads the body of the request and calls `redeem`.

        Raises:
            ZoneAssertionError: the assertion is malformed, no trusted parent signed it for this
                zone, it has expired, or it is valid for too long.
        """
        # These checks precede the reading of the body, so that only a trusted parent can make this
        # zone buffer a body of the size that offers and builds need.
        content, signature = _parts_of(text)
        statement = _statement_of(content)
        keys = self._parents().get(statement.parent, ())
        if not any(_is_signed(key, content, signature) for key in keys):
            raise ZoneAssertionError(
                "its signature is not that of a trusted parent; "
                "give this zone the parent's current public keys"
            )
        if statement.zone != self._zone:
            raise ZoneAssertionError(
                "it is meant for another zone; check the zone's name and URL in the parent"
            )
        _check_time(statement, self._now_s())
        return statement

    def redeem(self, statement: ZoneAssertion, asked: AssertedRequest) -> None:
        """Check a verified assertion against its whole request, and use up its nonce.

        Raises:
            ZoneAssertionError: the assertion is for another request, has expired, or was used
                before.
            UnavailableError: too many nonces are remembered.
        """
        if statement.asks != _digest_of(asked):
            raise ZoneAssertionError(
                "it was made for another request; sign the method, path and body that are sent"
            )
        now_s = self._now_s()
        # The time is checked again: the body may have taken so long that the assertion has expired
        # and its nonce has been forgotten, which would allow a replay.
        _check_time(statement, now_s)
        self._record_nonce(statement, now_s)

    def _record_nonce(self, statement: ZoneAssertion, now_s: float) -> None:
        # Expiry times differ by at most a minute, so an expired nonce behind one that is still
        # valid stays for at most another minute. A full scan for each request would cost more.
        while self._nonces:
            oldest = next(iter(self._nonces))
            if self._nonces[oldest] > now_s:
                break
            del self._nonces[oldest]
        # The name includes the parent, so one parent cannot use up the nonces of another.
        name = f"{statement.parent}/{statement.nonce}"
        if name in self._nonces:
            raise ZoneAssertionError("it has already been used; sign a new one for each request")
        if len(self._nonces) >= _NONCES_MAX:
            raise UnavailableError("too many requests from parent zones; try again in a minute")
        self._nonces[name] = statement.ends_at_s


def _check_time(statement: ZoneAssertion, now_s: float) -> None:
    # The upper bound keeps a parent from signing assertions whose nonces would have to be
    # remembered forever.
    if not now_s < statement.ends_at_s <= now_s + LIFE_S:
        raise ZoneAssertionError(
            "it has expired, or the clocks of the two zones differ; synchronise them"
        )


def _digest_of(asked: AssertedRequest | ForwardedRequest) -> str:
    digest = hashlib.sha256(_CONTEXT)
    # Each part is preceded by its length: without it, bytes could be moved from the path to the
    # body under the same digest.
    for part in (asked.method.encode(), asked.path.encode(), asked.body):
        digest.update(len(part).to_bytes(8, "big"))
        digest.update(part)
    return url_text_of(digest.digest())


def _parts_of(text: str) -> tuple[bytes, bytes]:
    content, point, signature = text.partition(".")
    if not point or len(text) > _TEXT_MAX:
        raise ZoneAssertionError(_FORM)
    return _bytes_of(content), _bytes_of(signature)


def _statement_of(content: bytes) -> ZoneAssertion:
    """Return the decoded assertion; its signature has not been checked yet."""
    try:
        return _decoder.decode(content)
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError) as error:
        raise ZoneAssertionError(_FORM) from error


def _is_signed(key: Ed25519PublicKey, content: bytes, signature: bytes) -> bool:
    # Ed25519 verification handles public values only, so its timing reveals nothing secret.
    try:
        key.verify(signature, _CONTEXT + content)
    except InvalidSignature:
        return False
    return True


def _bytes_of(text: str) -> bytes:
    try:
        return raw_of(text)
    except ValueError as error:
        raise ZoneAssertionError(_FORM) from error
