"""What a client sends: passwords from files, commands and prompts, and sign-ins."""

import ssl
from pathlib import Path

import pytest

from berth.cli.access import login
from berth.cli.access.access import Access, Value
from berth.cli.access.cloud_account import PASSWORD, TOKEN, CloudAccount
from berth.cli.access.login import Login, log_in
from berth.cli.access.sign_in import SignedIn
from berth.cli.failures import CommandError, ExitCode
from berth.lab.certificates import write_certificate


def access(cloud: CloudAccount | None = None, **values: str) -> Access:
    """Return an access whose values come from a context; a cloud has no address of its own."""
    if cloud is None:
        values = {"url": "https://h", **values}
    return Access({key: Value(text, "context c") for key, text in values.items()}, cloud)


def cloud_account(**auth: str) -> CloudAccount:
    """Return an account that signs in with a password."""
    given = {"auth_url": "https://ks", "username": "ann", **auth}
    return CloudAccount("cloud c", PASSWORD, given)


@pytest.fixture
def signed(monkeypatch: pytest.MonkeyPatch) -> list[CloudAccount]:
    """Return the accounts with which a simulated Keystone is asked to sign in."""
    found: list[CloudAccount] = []

    def sign_in(account: CloudAccount, tls: object, *, trust_env: bool) -> SignedIn:
        found.append(account)
        return SignedIn("new", "https://catalog")

    monkeypatch.setattr(login, "sign_in", sign_in)
    return found


def test_a_token_needs_no_password() -> None:
    """Certificates are verified by the system's authorities by default."""
    assert log_in(access(token="t")) == Login("https://h", None, "", "t", tls=None)


def test_a_password_may_be_in_a_file(tmp_path: Path) -> None:
    """Its first line counts; a missing or empty file is an error that names it."""
    path = tmp_path / "password"
    path.write_text("s3same\nmore\n")
    assert log_in(access(user="ann", password_file=str(path))).password == "s3same"
    path.write_text("\n")
    with pytest.raises(CommandError, match="empty password"):
        log_in(access(user="ann", password_file=str(path)))
    with pytest.raises(CommandError, match="context c cannot be read"):
        log_in(access(user="ann", password_file=str(tmp_path / "none")))


def test_a_password_may_be_the_output_of_a_command() -> None:
    """The words are those of a shell's quoting; a failure is an error."""
    assert log_in(access(user="ann", password_command="printf 's3 same\\nx'")).password == "s3 same"
    with pytest.raises(CommandError, match="password_command of context c failed"):
        log_in(access(user="ann", password_command="false"))
    with pytest.raises(CommandError, match="empty password"):
        log_in(access(user="ann", password_command="true"))


def test_without_a_terminal_a_missing_password_is_an_error() -> None:
    """A script would hang at a prompt."""
    with pytest.raises(CommandError, match="no password for ann") as error:
        log_in(access(user="ann"))
    assert error.value.code is ExitCode.USAGE


def test_a_cloud_gives_a_token_and_the_address(signed: list[CloudAccount]) -> None:
    """A URL of the context replaces that of the catalog."""
    found = log_in(access(cloud_account(password="p")))
    assert found == Login("https://catalog", None, "", "new", tls=None)
    assert log_in(access(cloud_account(password="p"), url="https://mine")).url == "https://mine"


def test_options_complete_the_account_of_a_cloud(signed: list[CloudAccount]) -> None:
    """Another user, another password, or a token."""
    log_in(access(cloud_account(password="p"), user="eve", password="q"))
    assert signed[-1].auth == {"auth_url": "https://ks", "username": "eve", "password": "q"}
    log_in(access(cloud_account(), password="r"))
    assert signed[-1].auth["password"] == "r"
    log_in(access(cloud_account(), token="t"))
    assert (signed[-1].method, signed[-1].auth["token"]) == (TOKEN, "t")
    with pytest.raises(CommandError, match="no password for ann"):
        log_in(access(cloud_account()))


def test_certificates_are_verified_as_the_source_says(tmp_path: Path) -> None:
    """A cloud may disable the verification; a file must have certificates."""
    unverified = log_in(access(verify="false")).tls
    assert unverified is not None
    assert unverified.verify_mode is ssl.CERT_NONE
    (tmp_path / "ca.pem").write_text("nonsense")
    for path in ("ca.pem", "none.pem"):
        with pytest.raises(CommandError, match="name a PEM file"):
            log_in(access(ca_file=str(tmp_path / path)))
    write_certificate(tmp_path / "ca.pem", tmp_path / "key.pem")
    assert isinstance(log_in(access(ca_file=str(tmp_path / "ca.pem"))).tls, ssl.SSLContext)


@pytest.mark.parametrize("url", ["ftp://u:s3same@h", "http://u:s3same@h:x", "nonsense"])
def test_an_invalid_address_is_refused(url: str) -> None:
    """The error names the origin, and shows no password."""
    with pytest.raises(CommandError, match="context c") as error:
        log_in(access(url=url))
    assert "s3same" not in str(error.value)
