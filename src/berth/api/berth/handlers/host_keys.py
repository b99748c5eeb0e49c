"""Handlers for the keys of hosts: enrolment, rotation and revocation."""

from berth.api.berth.schemas.host_keys import (
    EnrolBody,
    EnrolledAnswer,
    HostKeysAnswer,
    HostKeyView,
    RedeemBody,
    TokenAnswer,
)
from berth.api.errors import HttpError
from berth.api.routing import Answer, Call
from berth.domain.compute.host_identity import HostIdentity, encoded_key
from berth.services.gateway.identities import HostIdentities


def _identities(call: Call) -> HostIdentities:
    found = call.parts.identities
    if found is None:
        raise HttpError(
            501, "This process serves no agents; send the request to `berth api` or `berth up`."
        )
    return found


def _view(identity: HostIdentity, now_s: float) -> HostKeyView:
    state = "valid" if identity.keys else "waiting"
    if identity.revoked_at_s is not None:
        state = "revoked"
    elif identity.rotates:
        state = "rotating"
    has_token = bool(identity.token_digest) and identity.token_expires_at_s >= now_s
    return HostKeyView(
        host=identity.host,
        state=state,
        keys=[key.public_key for key in identity.keys],
        added_at_s=identity.keys[0].added_at_s if identity.keys else None,
        token_expires_at_s=identity.token_expires_at_s if has_token else None,
    )


async def list_keys(call: Call) -> Answer:
    """List the identities of hosts.

    Raises:
        HttpError: 501 when this process serves no agents.
    """
    now_s = call.parts.clock.now_s()
    await call.parts.follower.catch_up()
    return Answer(HostKeysAnswer([_view(one, now_s) for one in _identities(call).all()]))


async def enroll(call: Call) -> Answer:
    """Make a one-time token with which the agent of a host adds its key.

    Raises:
        InvalidInputError: the host's name or the life of the token is invalid.
        HttpError: 501 when this process serves no agents.
        ConflictError: every attempt lost a race against another change of the host's keys.
    """
    body, host = call.body(EnrolBody), call.key("host")
    expires_at_s = call.parts.clock.now_s() + body.life_s
    token = await _identities(call).enroll(host, life_s=body.life_s)
    return Answer(TokenAnswer(host, token, expires_at_s))


async def redeem(call: Call) -> Answer:
    """Exchange a one-time token for a key; agents call this without other credentials.

    Raises:
        InvalidInputError: the key is not an Ed25519 public key.
        AccessDeniedError: the token is wrong, used or expired.
        HttpError: 501 when this process serves no agents.
        ConflictError: every attempt lost a race against another change of the host's keys.
    """
    body = call.body(RedeemBody)
    await _identities(call).redeem(call.key("host"), body.token, body.public_key)
    return Answer(EnrolledAnswer([encoded_key(key) for key in call.parts.control_keys()]))


async def rotate(call: Call) -> Answer:
    """Ask the agent of a host to replace its key.

    Raises:
        NotFoundError: the host was never enrolled.
        ConflictError: the keys of the host are revoked, it has none yet, or every attempt lost a
            race against another change of them.
        HttpError: 501 when this process serves no agents.
    """
    await _identities(call).rotate(call.key("host"))
    return Answer()


async def revoke(call: Call) -> Answer:
    """Revoke the keys and the token of a host, and disconnect its agent.

    Raises:
        NotFoundError: the host was never enrolled.
        HttpError: 501 when this process serves no agents.
        ConflictError: every attempt lost a race against another change of the host's keys.
    """
    await _identities(call).revoke(call.key("host"))
    return Answer()
