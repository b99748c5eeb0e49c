"""Key pairs: import, generation, lists, owners, quota, and servers that are created with one."""

import base64
import hashlib

import pytest
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec, ed25519, rsa
from cryptography.hazmat.primitives.serialization import pkcs12

from berth.domain.compute.key_pair import KeyType
from berth.services.crypto.key_material import generate
from tests.unit.api.cloud import NOW_S, Answer, Json, Stack

PATH = "/v2.1/os-keypairs"
ALICE = "alice:web"


def ssh_key(key: object = None, comment: str = "") -> str:
    """Return a public key in OpenSSH format."""
    private = key or ed25519.Ed25519PrivateKey.generate()
    public = private.public_key().public_bytes(  # type: ignore[attr-defined]
        serialization.Encoding.OpenSSH, serialization.PublicFormat.OpenSSH
    )
    return f"{public.decode()}{comment}"


async def add(
    stack: Stack, version: str = "2.92", *, token: str = ALICE, **values: object
) -> Answer:
    """Create or import the key pair `mine`."""
    body = {"keypair": {"name": "mine", **values}}
    return await stack.ask("POST", PATH, body, version=version, token=token)


async def names(
    stack: Stack, query: str = "", *, version: str = "2.92", token: str = ALICE
) -> list[str]:
    """Return the names of the listed key pairs."""
    answer = await stack.ask("GET", f"{PATH}{query}", version=version, token=token)
    return [one["keypair"]["name"] for one in answer.body["keypairs"]]


@pytest.mark.parametrize(
    "key",
    [
        ed25519.Ed25519PrivateKey.generate(),
        ec.generate_private_key(ec.SECP256R1()),
        rsa.generate_private_key(65537, 2048),
    ],
    ids=lambda key: type(key).__name__,
)
async def test_a_key_is_imported_and_shown(stack: Stack, key: object) -> None:
    """The fingerprint is the MD5 digest of the encoded key; the comment does not matter."""
    public = ssh_key(key, " alice@laptop")
    answer = await add(stack, public_key=public)
    assert answer.status == 201
    digest = hashlib.md5(base64.b64decode(public.split()[1])).hexdigest()  # noqa: S324
    made = answer.body["keypair"]
    assert made == {
        "name": "mine",
        "public_key": public,
        "fingerprint": ":".join(digest[at : at + 2] for at in range(0, 32, 2)),
        "type": "ssh",
        "user_id": "alice",
    }
    shown = (await stack.ask("GET", f"{PATH}/mine", version="2.92", token=ALICE)).body["keypair"]
    identity = shown.pop("id")
    assert isinstance(identity, int)
    assert 0 <= identity < 2**31
    assert shown == {
        **made,
        "created_at": "2027-01-15T08:00:00.000000",
        "deleted": False,
        "deleted_at": None,
        "updated_at": None,
    }


async def test_versions_differ_in_statuses_and_types(stack: Stack) -> None:
    """Below 2.2 there are no types, a creation returns 200 and a deletion 202."""
    answer = await add(stack, "2.1", public_key=ssh_key())
    assert answer.status == 200
    assert "type" not in answer.body["keypair"]
    listed = await stack.ask("GET", PATH, version="2.1", token=ALICE)
    assert set(listed.body["keypairs"][0]["keypair"]) == {"name", "public_key", "fingerprint"}
    shown = await stack.ask("GET", f"{PATH}/mine", version="2.1", token=ALICE)
    assert "type" not in shown.body["keypair"]
    gone = await stack.ask("DELETE", f"{PATH}/mine", version="2.1", token=ALICE)
    assert (gone.status, gone.body) == (202, None)
    assert (await add(stack, "2.2", public_key=ssh_key())).status == 201
    assert (await stack.ask("DELETE", f"{PATH}/mine", version="2.2", token=ALICE)).status == 204
    assert (await stack.ask("DELETE", f"{PATH}/mine", version="2.2", token=ALICE)).status == 404
    assert (await stack.ask("GET", f"{PATH}/mine", version="2.2", token=ALICE)).status == 404


async def test_a_key_is_generated_before_2_92(stack: Stack) -> None:
    """The private key fits the public key, and the response alone contains it."""
    made = (await add(stack, "2.91")).body["keypair"]
    private = serialization.load_pem_private_key(made["private_key"].encode(), None)
    assert made["public_key"].startswith(ssh_key(private))
    assert made["private_key"].startswith("-----BEGIN RSA PRIVATE KEY-----")
    shown = await stack.ask("GET", f"{PATH}/mine", version="2.91", token=ALICE)
    assert "private_key" not in shown.body["keypair"]
    refused = await add(stack, "2.92", name="other")
    assert refused.status == 400
    assert "keypair.public_key" in refused.body["badRequest"]["message"]


async def test_certificates_are_generated_and_imported(stack: Stack) -> None:
    """A certificate is for client authentication of the user, valid for ten years."""
    made = (await add(stack, "2.91", type="x509")).body["keypair"]
    certificate = x509.load_pem_x509_certificate(made["public_key"].encode())
    bundle = pkcs12.load_pkcs12(base64.b64decode(made["private_key"]), None)
    assert bundle.cert is not None
    assert bundle.cert.certificate == certificate
    assert certificate.subject.rfc4514_string() == "CN=alice"
    assert (certificate.not_valid_after_utc - certificate.not_valid_before_utc).days == 3650
    names_ = certificate.extensions.get_extension_for_class(x509.SubjectAlternativeName).value
    (other,) = names_
    assert isinstance(other, x509.OtherName)
    assert other.value == b"\x0c\x0falice@localhost"
    fingerprint = certificate.fingerprint(hashes.SHA1()).hex(":")  # noqa: S303
    assert (made["type"], made["fingerprint"]) == ("x509", fingerprint)
    again = await add(stack, name="again", type="x509", public_key=made["public_key"])
    assert again.body["keypair"]["fingerprint"] == fingerprint


def test_long_users_have_certificates_too() -> None:
    """A principal name above 127 bytes has a long length in DER, and the common name is cut."""
    made = generate(KeyType.X509, "u" * 255, NOW_S)
    certificate = x509.load_pem_x509_certificate(made.public_key.encode())
    (other,) = certificate.extensions.get_extension_for_class(x509.SubjectAlternativeName).value
    assert isinstance(other, x509.OtherName)
    assert other.value == b"\x0c\x82\x01\x09" + b"u" * 255 + b"@localhost"
    assert certificate.subject.rfc4514_string() == f"CN={'u' * 64}"


@pytest.mark.parametrize(
    ("version", "values", "field"),
    [
        ("2.92", {"public_key": "nonsense"}, "keypair.public_key"),
        ("2.92", {"public_key": ""}, "keypair.public_key"),
        ("2.92", {"public_key": "ssh-rsa"}, "keypair.public_key"),
        ("2.92", {"public_key": "ssh-rsa AAAA"}, "keypair.public_key"),
        ("2.92", {"public_key": ssh_key().replace("ed25519", "rsa")}, "keypair.public_key"),
        ("2.92", {"public_key": "ssh-ed25519 \N{SNOWMAN}"}, "keypair.public_key"),
        ("2.92", {"public_key": ssh_key(), "type": "x509"}, "keypair.public_key"),
        ("2.92", {"public_key": "x" * 16_385}, "keypair.public_key"),
        ("2.92", {"public_key": None}, "keypair.public_key"),
        ("2.92", {"public_key": ssh_key(), "type": "gpg"}, "keypair.type"),
        ("2.92", {"public_key": ssh_key(), "name": "a/b"}, "keypair.name"),
        ("2.92", {"public_key": ssh_key(), "name": ""}, "keypair.name"),
        ("2.92", {"public_key": ssh_key(), "name": "x" * 256}, "keypair.name"),
        ("2.92", {"public_key": ssh_key(), "name": " a"}, "keypair.name"),
        ("2.92", {"public_key": ssh_key(), "nonsense": 1}, "keypair"),
        ("2.91", {"name": "a@b"}, "keypair.name"),
        ("2.91", {"name": "a.b"}, "keypair.name"),
        ("2.1", {"type": "ssh"}, "keypair.type"),
        ("2.9", {"user_id": "alice"}, "keypair.user_id"),
    ],
)
async def test_a_bad_key_pair_is_refused(
    stack: Stack, version: str, values: Json, field: str
) -> None:
    """The error begins with the path of the field, and nothing is stored."""
    answer = await add(stack, version, **values)
    assert answer.status == 400
    assert answer.body["badRequest"]["message"].startswith(field)
    assert await names(stack) == []


async def test_names_are_unique_to_a_user(stack: Stack) -> None:
    """A second key pair of the same name is a conflict, unless another user adds it."""
    assert (await add(stack, name="a.b@c", public_key=ssh_key())).status == 201
    assert (await add(stack, name="a.b@c", public_key=ssh_key())).status == 409
    assert (await add(stack, "2.91")).status == 201
    assert (await add(stack, "2.91")).status == 409
    assert (await add(stack, "2.91", token="bob:web")).status == 201
    # A user has the same key pairs in each project.
    assert await names(stack, token="alice:other") == ["a.b@c", "mine"]
    await stack.ask("DELETE", f"{PATH}/mine", version="2.92", token="bob:web")
    assert await names(stack, token="bob:web") == []
    assert await names(stack) == ["a.b@c", "mine"]


async def test_administrators_name_other_users_from_2_10_on(stack: Stack) -> None:
    """Other callers may name only themselves; before 2.10 the parameter has no effect."""
    made = await add(stack, token="admin", user_id="alice", public_key=ssh_key())
    assert (made.status, made.body["keypair"]["user_id"]) == (201, "alice")
    assert await names(stack, "?user_id=alice", token="admin") == ["mine"]
    assert await names(stack, "?user_id=alice") == ["mine"]
    assert await names(stack, "?user_id=alice", version="2.9", token="bob:web") == []
    for method, path in (("GET", PATH), ("GET", f"{PATH}/mine"), ("DELETE", f"{PATH}/mine")):
        asked = await stack.ask(method, f"{path}?user_id=alice", version="2.10", token="bob:web")
        assert asked.status == 403
    assert (await add(stack, token="bob:web", user_id="alice", public_key=ssh_key())).status == 403
    gone = await stack.ask("DELETE", f"{PATH}/mine?user_id=alice", version="2.92", token="admin")
    assert gone.status == 204
    assert await names(stack) == []


async def test_lists_have_pages_from_2_35_on(stack: Stack) -> None:
    """Key pairs are sorted by name, and a page links to the next one."""
    for name in ("c", "a", "b"):
        await add(stack, name=name, public_key=ssh_key())
    first = await stack.ask("GET", f"{PATH}?limit=2", version="2.35", token=ALICE)
    assert [one["keypair"]["name"] for one in first.body["keypairs"]] == ["a", "b"]
    (link,) = first.body["keypairs_links"]
    assert (link["rel"], link["href"]) == ("next", f"http://berth.test{PATH}?limit=2&marker=b")
    assert await names(stack, "?limit=2&marker=b", version="2.35") == ["c"]
    assert await names(stack, "?limit=3", version="2.35") == ["a", "b", "c"]
    assert await names(stack, "?limit=1&marker=a", version="2.34") == ["a", "b", "c"]
    assert (await stack.ask("GET", f"{PATH}?marker=x", version="2.35", token=ALICE)).status == 400


async def test_the_quota_of_the_project_limits_a_user(stack: Stack) -> None:
    """The default is 100; a key pair too many is refused in Nova's words."""
    limits = await stack.ask("GET", "/v2.1/limits", token=ALICE)
    assert limits.body["limits"]["absolute"]["maxTotalKeypairs"] == 100
    quota = {"quota_set": {"key_pairs": 1}}
    changed = await stack.ask("PUT", "/v2.1/os-quota-sets/web", quota)
    assert changed.body["quota_set"]["key_pairs"] == 1
    assert (await add(stack, public_key=ssh_key())).status == 201
    for values in ({"public_key": ssh_key()}, {}):
        refused = await add(stack, "2.91", name="other", **values)
        assert refused.status == 403
        assert refused.body["forbidden"]["message"] == "Quota exceeded, too many key pairs."
    assert (await add(stack, token="bob:web", public_key=ssh_key())).status == 201


async def test_a_server_keeps_the_key_that_it_was_created_with(stack: Stack) -> None:
    """The server shows the name, also after the key pair was deleted; the record has the key."""
    public = ssh_key()
    await add(stack, public_key=public)
    uuid = await stack.server(token=ALICE, key_name="mine")
    await stack.ask("DELETE", f"{PATH}/mine", version="2.92", token=ALICE)
    path = f"/v2.1/servers/{uuid}"
    server = (await stack.ask("GET", path, version="2.90", token=ALICE)).body["server"]
    assert server["key_name"] == "mine"
    instance = await stack.parts.instances.get(uuid)
    assert (instance.extra["key_data"], instance.extra["key_type"]) == (public, "ssh")
    listed = await stack.ask("GET", "/v2.1/servers?key_name=mine", token=ALICE)
    assert [one["id"] for one in listed.body["servers"]] == [uuid]


@pytest.mark.parametrize("token", ["bob:web", "alice:web"])
async def test_a_server_needs_a_key_pair_of_its_creator(stack: Stack, token: str) -> None:
    """A key pair of another user or no user is refused, and nothing is created."""
    if token != ALICE:
        await add(stack, public_key=ssh_key())
    server = {"name": "vm", "flavorRef": "small", "networks": "none", "key_name": "mine"}
    body = {"server": server}
    answer = await stack.ask("POST", "/v2.1/servers", body, version="2.90", token=token)
    assert answer.status == 400
    assert answer.body["badRequest"]["message"].startswith("server.key_name")
    assert (await stack.ask("GET", "/v2.1/servers", token=token)).body["servers"] == []
    assert await stack.server(token=token, key_name=None)
