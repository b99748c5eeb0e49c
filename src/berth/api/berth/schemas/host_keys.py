"""Request bodies and response bodies for the keys of hosts."""

from typing import Annotated

from berth.api.codec import Meta, Model, View
from berth.services.gateway.identities import TOKEN_LIFE_S, TOKEN_LIFE_S_MAX


class EnrolBody(Model):
    """The request for a one-time token, which is valid for `life_s` seconds."""

    life_s: Annotated[float, Meta(gt=0, le=TOKEN_LIFE_S_MAX)] = TOKEN_LIFE_S


class TokenAnswer(View):
    """A one-time token; only its digest is stored, so it cannot be shown again."""

    host: str
    token: str
    expires_at_s: float


class RedeemBody(Model):
    """A one-time token, and the key to add: an Ed25519 public key in base64."""

    token: Annotated[str, Meta(min_length=1, max_length=255)]
    public_key: Annotated[str, Meta(min_length=1, max_length=255)]


class EnrolledAnswer(View):
    """The response to an accepted key: the control plane's public keys, in base64."""

    control_keys: list[str]


class HostKeyView(View):
    """The identity of one host.

    `state` is `waiting` until the first key is added, `valid`, `rotating` while the agent is to
    replace its key, or `revoked`. `keys` are the public keys in base64. `token_expires_at_s` is
    null when there is no token that is unused and has not expired. Times are Unix seconds.
    """

    host: str
    state: str
    keys: list[str]
    added_at_s: float | None
    token_expires_at_s: float | None


class HostKeysAnswer(View):
    """The identities of all hosts, ordered by host."""

    host_keys: list[HostKeyView]
