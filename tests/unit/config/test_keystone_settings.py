"""The settings of Keystone: credentials from one source, and errors without secrets."""

from pathlib import Path

import pytest

from berth.config.api_settings import AuthMode
from berth.config.settings import Settings
from berth.config.settings_reader import read_settings
from berth.domain.errors import InvalidInputError

URL = "https://keystone.test:5000/v3"


def read(**values: str) -> Settings:
    """Return settings from the environment, given by the names of the keys in `keystone`."""
    named = {f"BERTH_KEYSTONE_{key.upper()}": value for key, value in values.items()}
    return read_settings(None, {"BERTH_AUTH_MODE": "keystone", **named}, {})


def test_a_password_in_the_environment() -> None:
    """URL and password are sufficient; the password is in no representation of the settings."""
    found = read(auth_url=URL, password="secret-word", admin_roles="admin,operator")
    assert found.auth.mode is AuthMode.KEYSTONE
    assert found.keystone.read_secret() == "secret-word"
    assert found.keystone.admin_roles == ("admin", "operator")
    assert "secret-word" not in repr(found)


def test_secrets_in_files(tmp_path: Path) -> None:
    """A file has the secret in its only line, and is read each time."""
    file = tmp_path / "secret"
    file.write_text("secret word\n")
    by_password = read(auth_url=URL, password_file=str(file)).keystone
    by_credential = read(
        auth_url=URL,
        application_credential_id="c1",
        application_credential_secret_file=str(file),
    ).keystone
    assert by_password.read_secret() == by_credential.read_secret() == "secret word"
    file.write_text("changed")
    assert by_password.read_secret() == "changed"


@pytest.mark.parametrize("content", [b"", b"\n", b"a\nb\n", b"\xff", b"x" * 4097, None])
def test_unusable_files_are_refused(tmp_path: Path, content: bytes | None) -> None:
    """The error names the setting and the file, and no content."""
    file = tmp_path / "secret"
    if content is not None:
        file.write_bytes(content)
    found = read(auth_url=URL, password_file=str(file)).keystone
    with pytest.raises(InvalidInputError, match=r"^keystone\.password_file: .*secret"):
        found.read_secret()


@pytest.mark.parametrize(
    ("values", "key"),
    [
        ({}, "keystone.auth_url"),
        ({"auth_url": URL}, "keystone.password_file"),
        ({"auth_url": "keystone.test", "password": "s3"}, "keystone.auth_url"),
        ({"auth_url": "ftp://keystone.test", "password": "s3"}, "keystone.auth_url"),
        ({"auth_url": "https://u:s3@keystone.test", "password": "s3"}, "keystone.auth_url"),
        ({"auth_url": f"{URL}?x=s3", "password": "s3"}, "keystone.auth_url"),
        (
            {"auth_url": URL, "password": "s3", "www_authenticate_uri": 'https://k/"x'},
            "keystone.www_authenticate_uri",
        ),
        ({"auth_url": URL, "password": "s3", "password_file": "f"}, "keystone.password_file"),
        (
            {"auth_url": URL, "application_credential_id": "c"},
            "keystone.application_credential_secret_file",
        ),
        (
            {"auth_url": URL, "application_credential_id": "c", "password": "s3"},
            "keystone.password",
        ),
        (
            {"auth_url": URL, "application_credential_secret": "s3"},
            "keystone.application_credential_secret",
        ),
    ],
)
def test_contradictions_are_refused(values: dict[str, str], key: str) -> None:
    """The error names the key and no secret."""
    with pytest.raises(InvalidInputError) as caught:
        read(**values)
    assert caught.value.field == key
    assert "s3" not in str(caught.value)


def test_a_secret_of_another_type_is_not_quoted(tmp_path: Path) -> None:
    """A password that TOML reads as a number is refused without being shown."""
    file = tmp_path / "berth.toml"
    file.write_text(f'[keystone]\nauth_url = "{URL}"\npassword = 123456789\n')
    with pytest.raises(InvalidInputError) as caught:
        read_settings(file, {}, {})
    assert "123456789" not in str(caught.value)
    assert "keystone.password" in str(caught.value)


def test_the_mode_may_listen_on_every_address() -> None:
    """Callers need tokens, so the address need not be loopback."""
    environ = {
        "BERTH_AUTH_MODE": "keystone",
        "BERTH_KEYSTONE_AUTH_URL": URL,
        "BERTH_KEYSTONE_PASSWORD": "s3",
        "BERTH_API_LISTEN": "0.0.0.0:8774",
    }
    assert str(read_settings(None, environ, {}).api.listen) == "0.0.0.0:8774"
