"""Statements: for whom a parent zone asks something of its child, signed by the parent."""

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

LIFE_S: Final = 60.0
"""Longest time that a statement may have left: clocks of zones have to agree to within this."""
_TEXT_MAX: Final = 4096
_NONCE_BYTES: Final = 16
_NONCES_MAX: Final = 200_000
_CONTEXT: Final = b"berth zone statement 1\0"
_FORM: Final = "it is missing, or has another form"


class ZoneAssertionError(BerthError):
    """A request between zones bears no statement that this zone believes.

    Args:
        reason: what is wrong with it; no more than the sender knows.
    """

    def __init__(self, reason: str) -> None:
        super().__init__(f"the statement of the parent zone is refused: {reason}")
        self.reason = reason


@dataclass(frozen=True, slots=True)
class AssertedRequest:
    """One HTTP request as a statement names it."""

    method: str
    path: str
    body: bytes = b""


class ZoneAssertion(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Who asks (the parent's name), whom (the zone's), for which tenant, and what.

    `asks` is a digest of method, path and body; `ends_at_s` Unix seconds; `nonce` is used once.
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
    """Signs with the private key of a zone, such as an Ed25519PrivateKey."""

    def sign(self, data: bytes, /) -> bytes:
        """Return the signature of some bytes."""
        ...


class AssertionWriter:
    """Writes the statements of one zone to its children.

    Args:
        name: of this zone, as its children know it.
        key: its private key.
        now_s: tells Unix seconds.
        random_bytes: gives so many random bytes.
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
        """Return the text of a statement for one request to a zone."""
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
    """Believes the statements of some parents.

    Args:
        zone: the name of this zone.
        parents: the public keys of each trusted parent; several while one is replaced.
        now_s: tells Unix seconds.
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
        self._nonces: dict[str, float] = {}
        """Numbers that were used, with the end of their statement; oldest first."""

    def verify(self, text: str, asked: AssertedRequest) -> ZoneAssertion:
        """Return what a text states of the request that it came with.

        Raises:
            ZoneAssertionError: no trusted parent signed it for this request and zone, or it
                has ended or was used before.
            UnavailableError: too many statements are in use at once.
        """
        statement = self.verify_signature(text)
        self.redeem(statement, asked)
        return statement

    def verify_signature(self, text: str) -> ZoneAssertion:
        """Return what a text states, before its request is there as a whole; then `use` it.

        So nobody but a parent makes this zone read a large body.

        Raises:
            ZoneAssertionError: no trusted parent signed it for this zone, or it has ended.
        """
        content, signature = _parts_of(text)
        statement = _statement_of(content)
        keys = self._parents().get(statement.parent, ())
        if not any(_is_signed(key, content, signature) for key in keys):
            raise ZoneAssertionError("its signature is not that of a parent that is trusted here")
        if statement.zone != self._zone:
            raise ZoneAssertionError("it is meant for another zone")
        _check_time(statement, self._now_s())
        return statement

    def redeem(self, statement: ZoneAssertion, asked: AssertedRequest) -> None:
        """Take a statement that was read before for its request, this once.

        Raises:
            ZoneAssertionError: it is for another request, has ended, or was used before.
            UnavailableError: too many statements are in use at once.
        """
        if statement.asks != _digest_of(asked):
            raise ZoneAssertionError("it was made for another request")
        now_s = self._now_s()
        # Once more, as it may have ended while its body came, and its number be forgotten.
        _check_time(statement, now_s)
        self._record_nonce(statement, now_s)

    def _record_nonce(self, statement: ZoneAssertion, now_s: float) -> None:
        while self._nonces:
            oldest = next(iter(self._nonces))
            if self._nonces[oldest] > now_s:
                break
            del self._nonces[oldest]
        name = f"{statement.parent}/{statement.nonce}"
        if name in self._nonces:
            raise ZoneAssertionError("it was used before")
        if len(self._nonces) >= _NONCES_MAX:
            raise UnavailableError("too many requests of parents at once; try again in a minute")
        self._nonces[name] = statement.ends_at_s


def _check_time(statement: ZoneAssertion, now_s: float) -> None:
    if not now_s < statement.ends_at_s <= now_s + LIFE_S:
        raise ZoneAssertionError("it has ended, or the clocks of the two zones differ")


def _digest_of(asked: AssertedRequest | ForwardedRequest) -> str:
    digest = hashlib.sha256(_CONTEXT)
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
    """Read a statement, before anybody knows whether it is true."""
    try:
        return _decoder.decode(content)
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError) as error:
        raise ZoneAssertionError(_FORM) from error


def _is_signed(key: Ed25519PublicKey, content: bytes, signature: bytes) -> bool:
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
