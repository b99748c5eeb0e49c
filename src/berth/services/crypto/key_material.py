"""Generates key pairs, and computes the fingerprints of public keys as Nova does."""

import base64
import binascii
import datetime as dt
import hashlib
from typing import Final, NamedTuple

from cryptography import x509
from cryptography.exceptions import UnsupportedAlgorithm
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import rsa
from cryptography.hazmat.primitives.serialization import pkcs12
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID, ObjectIdentifier

from berth.domain.compute.key_pair import KeyType
from berth.domain.errors import InvalidInputError

_RSA_BITS: Final = 2_048
_RSA_EXPONENT: Final = 65_537
# Nova issues certificates for ten years.
_VALID_DAYS: Final = 3_650
# The user principal name, by which Windows maps a client certificate to a user.
_PRINCIPAL_NAME: Final = ObjectIdentifier("1.3.6.1.4.1.311.20.2.3")
_UTF8_STRING_TAG: Final = 0x0C
_SHORT_LENGTH_MAX: Final = 0x7F
# An X.520 common name has at most 64 characters.
_COMMON_NAME_MAX: Final = 64
_SSH_PARTS_MIN: Final = 2


class GeneratedKey(NamedTuple):
    """A generated key pair; the caller must not store or log the private key."""

    private_key: str
    public_key: str


def fingerprint_of(public_key: str, key_type: KeyType) -> str:
    """Return the fingerprint of a public key.

    Raises:
        InvalidInputError: the string is not a public key of the given type.
    """
    try:
        if key_type is KeyType.SSH:
            digest = _ssh_digest(public_key)
        else:
            certificate = x509.load_pem_x509_certificate(public_key.encode())
            digest = certificate.fingerprint(hashes.SHA1())  # noqa: S303 - the API's format
    except (ValueError, TypeError, UnsupportedAlgorithm) as error:
        kind = "an OpenSSH public key" if key_type is KeyType.SSH else "a certificate in PEM"
        raise InvalidInputError(
            "keypair.public_key", f"is not {kind} that Berth can read"
        ) from error
    return digest.hex(":")


def generate(key_type: KeyType, user_id: str, now_s: float) -> GeneratedKey:
    """Generate an RSA key pair, which takes about 0.1 s of CPU time.

    Args:
        key_type: the format of the result. The private key is PEM for `ssh`; for `x509` it is a
            PKCS #12 file without a password, in base64.
        user_id: the subject of a certificate.
        now_s: the Unix time from which a certificate is valid.
    """
    key = rsa.generate_private_key(_RSA_EXPONENT, _RSA_BITS)
    if key_type is KeyType.X509:
        return _certified(key, user_id, now_s)
    private = key.private_bytes(
        serialization.Encoding.PEM,
        serialization.PrivateFormat.TraditionalOpenSSL,
        serialization.NoEncryption(),
    )
    public = key.public_key().public_bytes(
        serialization.Encoding.OpenSSH, serialization.PublicFormat.OpenSSH
    )
    return GeneratedKey(private.decode(), f"{public.decode()} Generated-by-Berth")


def _ssh_digest(public_key: str) -> bytes:
    # This call checks the whole key. The digest is over its encoded form.
    serialization.load_ssh_public_key(public_key.encode())
    parts = public_key.split()
    if len(parts) < _SSH_PARTS_MIN:
        raise ValueError("no key follows the type")
    try:
        encoded = base64.b64decode(parts[1], validate=True)
    except binascii.Error as error:
        raise ValueError("the key is not base64") from error
    return hashlib.md5(encoded, usedforsecurity=False).digest()


def _certified(key: rsa.RSAPrivateKey, user_id: str, now_s: float) -> GeneratedKey:
    start = dt.datetime.fromtimestamp(now_s, dt.UTC)
    name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, user_id[:_COMMON_NAME_MAX] or "-")])
    principal = x509.OtherName(_PRINCIPAL_NAME, _utf8_string(f"{user_id}@localhost"))
    certificate = (
        x509.CertificateBuilder()
        .subject_name(name)
        .issuer_name(name)
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(start)
        .not_valid_after(start + dt.timedelta(days=_VALID_DAYS))
        .add_extension(x509.ExtendedKeyUsage([ExtendedKeyUsageOID.CLIENT_AUTH]), critical=False)
        .add_extension(x509.SubjectAlternativeName([principal]), critical=False)
        .sign(key, hashes.SHA256())
    )
    private = pkcs12.serialize_key_and_certificates(
        None, key, certificate, None, serialization.NoEncryption()
    )
    public = certificate.public_bytes(serialization.Encoding.PEM).decode()
    return GeneratedKey(base64.b64encode(private).decode(), public)


def _utf8_string(text: str) -> bytes:
    """Return a string in DER."""
    content = text.encode()
    size = len(content)
    if size <= _SHORT_LENGTH_MAX:
        return bytes((_UTF8_STRING_TAG, size)) + content
    length = size.to_bytes((size.bit_length() + 7) // 8, "big")
    return bytes((_UTF8_STRING_TAG, 0x80 | len(length))) + length + content
