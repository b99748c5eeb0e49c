"""Keys of hosts: the identities with which agents prove which host they act for."""

from typing import Final

from berth.client.operations import Group, K, operation
from berth.client.requests import Route, Steps, Value


class HostKey(Value, frozen=True):
    """The identity of one host. Times are Unix seconds.

    `state` is `waiting` until the first key is added, `valid`, `rotating` while the agent is to
    replace its key, or `revoked`. `keys` are the public keys in base64. `token_expires_at_s` is
    None when no unused token is valid.
    """

    host: str
    state: str
    keys: tuple[str, ...]
    added_at_s: float | None
    token_expires_at_s: float | None


class HostKeyList(Value, frozen=True):
    """The response with the identities of all hosts."""

    host_keys: tuple[HostKey, ...]


class EnrollToken(Value, frozen=True):
    """A one-time token for a host; the service cannot show it again."""

    host: str
    token: str
    expires_at_s: float


class Enrolled(Value, frozen=True):
    """The response to an accepted key: the control plane's public keys, in base64."""

    control_keys: tuple[str, ...]


_LIST: Final = Route("GET", "/berth/v1/host-keys", HostKeyList)
_ENROLL: Final = Route("POST", "/berth/v1/host-keys/{host}/token", EnrollToken, body=("life_s",))
_REDEEM: Final = Route("PUT", "/berth/v1/host-keys/{host}", Enrolled, body=("token", "public_key"))
_ROTATE: Final = Route("POST", "/berth/v1/host-keys/{host}/rotate", type(None))
_REVOKE: Final = Route("DELETE", "/berth/v1/host-keys/{host}", type(None))


class HostKeys(Group[K]):
    """Keys of hosts, for administrators except for `redeem`."""

    @operation
    def list(self) -> Steps[tuple[HostKey, ...]]:
        """Return the identities of all hosts, ordered by host."""
        found = yield from _LIST.ask()
        return found.host_keys

    @operation
    def enroll(self, host: str, *, life_s: float = 3600.0) -> Steps[EnrollToken]:
        """Return a one-time token for a host, which replaces an unused one.

        Args:
            host: the name of the host.
            life_s: the seconds for which the token is valid.
        """
        return _ENROLL.ask(body={"life_s": life_s}, host=host)

    @operation
    def redeem(self, host: str, token: str, public_key: str) -> Steps[tuple[str, ...]]:
        """Exchange a token for the acceptance of a key; return the control plane's public keys.

        The token is the credential, so the client needs no other.

        Args:
            host: the name of the host.
            token: the one-time token.
            public_key: an Ed25519 public key, 32 bytes in base64.
        """
        body = {"token": token, "public_key": public_key}
        found = yield from _REDEEM.ask(body=body, host=host)
        return found.control_keys

    @operation
    def rotate(self, host: str) -> Steps[None]:
        """Have the agent of a host replace its key, now or at its next connection."""
        return _ROTATE.ask(host=host)

    @operation
    def revoke(self, host: str) -> Steps[None]:
        """Revoke the keys and the token of a host, and end the session of its agent."""
        return _REVOKE.ask(host=host)
