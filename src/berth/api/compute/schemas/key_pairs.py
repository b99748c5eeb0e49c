"""Request and response bodies for key pairs."""

from typing import Annotated

from berth.api.codec import UNSET, Meta, Model, UnsetType, View
from berth.api.links import Link
from berth.api.values import Limit
from berth.domain.compute.key_pair import KeyType

# The longest keys, RSA keys of 16,384 bits and their certificates, have a third of this length.
PublicKey = Annotated[str, Meta(max_length=16_384)]
UserId = Annotated[str, Meta(min_length=1, max_length=255)]


class NewKeyPair(Model):
    """The key pair to create.

    Before microversion 2.92, Berth generates a key pair if `public_key` is missing.
    """

    name: Annotated[str, Meta(min_length=1, max_length=255, pattern="^[a-zA-Z0-9@._ -]+$")]
    public_key: PublicKey | UnsetType = UNSET
    type: KeyType | UnsetType = UNSET
    user_id: UserId | UnsetType = UNSET


class NewKeyPairBody(Model):
    """Body of POST /os-keypairs."""

    keypair: NewKeyPair


class KeyPairQuery(Model):
    """The owner of a key pair, from microversion 2.10 on; only administrators may name others."""

    user_id: UserId | None = None


class KeyPairsQuery(KeyPairQuery):
    """The owner and, from microversion 2.35 on, the page of a list of key pairs."""

    limit: Limit | None = None
    marker: str | None = None


class KeyPairView(View):
    """A key pair; the response to its creation has neither an id nor times."""

    name: str
    public_key: str
    fingerprint: str
    type: str | UnsetType = UNSET
    user_id: str | UnsetType = UNSET
    private_key: str | UnsetType = UNSET
    id: int | UnsetType = UNSET
    created_at: str | UnsetType = UNSET
    deleted: bool | UnsetType = UNSET
    deleted_at: str | UnsetType | None = UNSET
    updated_at: str | UnsetType | None = UNSET


class KeyPairAnswer(View):
    """The response with one key pair."""

    keypair: KeyPairView


class KeyPairsAnswer(View):
    """The response with a page of key pairs, each of which is nested under `keypair`."""

    keypairs: list[KeyPairAnswer]
    keypairs_links: tuple[Link, ...] | UnsetType = UNSET
