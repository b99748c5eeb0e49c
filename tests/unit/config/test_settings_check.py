"""Checks of settings: every mistake at once, and the files that settings name."""

from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
from cryptography import x509
from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from cryptography.x509.oid import NameOID

from berth.config import control_keys
from berth.config.settings_check import Finding, Role, Severity, check_settings, config_file_finding
from berth.config.settings_reader import Reading, examine_settings

NOW = datetime(2027, 1, 1, tzinfo=UTC)


def write_pair(folder: Path, *, ends: datetime, begins: datetime | None = None) -> None:
    """Write `api.pem` and `api.key` for a certificate with this validity."""
    key = Ed25519PrivateKey.generate()
    name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "api")])
    certificate = (
        x509.CertificateBuilder()
        .subject_name(name)
        .issuer_name(name)
        .public_key(key.public_key())
        .serial_number(1)
        .not_valid_before(begins or ends - timedelta(days=365))
        .not_valid_after(ends)
        .sign(key, None)
    )
    (folder / "api.pem").write_bytes(certificate.public_bytes(serialization.Encoding.PEM))
    write_key(folder, key)


def write_key(folder: Path, key: Ed25519PrivateKey) -> None:
    """Write a private key to `api.key`, readable by its owner only."""
    path = folder / "api.key"
    path.write_bytes(
        key.private_bytes(
            serialization.Encoding.PEM,
            serialization.PrivateFormat.PKCS8,
            serialization.NoEncryption(),
        )
    )
    path.chmod(0o600)


Check = Callable[..., list[Finding]]


@pytest.fixture
def check(tmp_path: Path) -> Check:
    """Return a function that checks the text of a valid settings file."""

    def run(text: str, role: Role = Role.ALL) -> list[Finding]:
        reading = read(tmp_path, text)
        assert reading.mistakes == ()
        assert reading.settings is not None
        return check_settings(reading.settings, role, NOW)

    return run


def read(folder: Path, text: str, **environ: str) -> Reading:
    """Return what a settings file with this text gives."""
    file = folder / "berth.toml"
    file.write_text(text)
    return examine_settings(file, environ, {})


def shown(found: list[Finding]) -> list[tuple[str, Severity]]:
    """Return the setting and the severity of each finding."""
    return [(one.key, one.severity) for one in found]


def test_every_mistake_is_found_with_its_line(tmp_path: Path) -> None:
    """A misspelt key and section, a wrong type and a value out of range are found together."""
    text = '[api]\nlistn = "x"\nbody_bytes_max = "x"\n[atuh]\nmode = "x"\n[bus]\nprefetch = 0\n'
    reading = read(tmp_path, text)
    assert reading.settings is None
    file = tmp_path / "berth.toml"
    assert {one.key: one.origin for one in reading.mistakes} == {
        "api.listn": f"{file}:2",
        "api.body_bytes_max": f"{file}:3",
        "atuh": f"{file}:4",
        "bus.prefetch": f"{file}:7",
    }
    reasons = {one.key: one.error.reason for one in reading.mistakes}
    assert "did you mean 'api.listen'?" in reasons["api.listn"]
    assert "did you mean 'auth'?" in reasons["atuh"]


def test_contradictions_are_found_beside_mistakes_of_other_sections(tmp_path: Path) -> None:
    """Rules between valid sections apply although another section is invalid."""
    reading = read(tmp_path, "[bus]\nprefetch = 0\n", BERTH_AUTH_MODE="identity")
    assert {one.key for one in reading.mistakes} == {"bus.prefetch", "auth.htpasswd"}


def test_contradictions_are_not_guessed_from_invalid_sections(tmp_path: Path) -> None:
    """No rule applies to a section of which a value is invalid."""
    text = '[api]\nlisten = "0.0.0.0:80"\n[auth]\nmode = "identty"\n'
    assert [one.key for one in read(tmp_path, text).mistakes] == ["auth.mode"]


def test_a_file_that_is_not_toml_is_one_mistake(tmp_path: Path) -> None:
    """The file as a whole is named, with the line of the error."""
    (mistake,) = read(tmp_path, "[api\n").mistakes
    assert mistake.key == ""
    assert "line 1" in mistake.error.reason


def test_lines_of_dotted_and_quoted_keys_are_found(tmp_path: Path) -> None:
    """A key may be dotted or quoted, and the table of a section may be inline."""
    text = 'api.body_bytes_max = 1\nbus = { prefetch = 0 }\n[ "quota" ]\n"cores" = -2\n'
    origins = {one.key: one.origin.rpartition(":")[2] for one in read(tmp_path, text).mistakes}
    assert origins == {"api.body_bytes_max": "1", "bus.prefetch": "2", "quota.cores": "4"}


def test_defaults_have_no_findings(check: Check) -> None:
    """A file without settings is valid for every process."""
    assert check("") == []


TLS = '[api]\ntls_certificate = "api.pem"\ntls_key = "api.key"\n'


def test_a_valid_certificate_is_accepted(check: Check, tmp_path: Path) -> None:
    """The key belongs to the certificate, which is valid for a year."""
    write_pair(tmp_path, ends=NOW + timedelta(days=300))
    assert check(TLS) == []


@pytest.mark.parametrize(
    ("days", "severity", "text"),
    [
        (-1, Severity.ERROR, "expired on 2026-12-31"),
        (29, Severity.WARNING, "expires on 2027-01-30"),
    ],
)
def test_an_expiring_certificate_is_found(
    check: Check, tmp_path: Path, days: int, severity: Severity, text: str
) -> None:
    """An expired certificate is an error, and one that expires within a month a warning."""
    write_pair(tmp_path, ends=NOW + timedelta(days=days))
    (found,) = check(TLS)
    assert (found.key, found.severity) == ("api.tls_certificate", severity)
    assert text in found.text


def test_a_certificate_of_the_future_is_an_error(check: Check, tmp_path: Path) -> None:
    """The certificate is not valid yet, or the clock is wrong."""
    begins = NOW + timedelta(days=1)
    write_pair(tmp_path, ends=NOW + timedelta(days=300), begins=begins)
    (found,) = check(TLS)
    assert "valid only from 2027-01-02" in found.text


def test_the_key_must_belong_to_the_certificate(check: Check, tmp_path: Path) -> None:
    """Another key is an error, and one that all users can read a warning."""
    write_pair(tmp_path, ends=NOW + timedelta(days=300))
    write_key(tmp_path, Ed25519PrivateKey.generate())
    (tmp_path / "api.key").chmod(0o644)
    wrong, mode = check(TLS)
    assert "is not the key of the certificate" in wrong.text
    assert (mode.severity, "chmod 600" in mode.text) == (Severity.WARNING, True)


def test_malformed_and_missing_certificates_are_errors(check: Check, tmp_path: Path) -> None:
    """A file without PEM and a missing file are errors of their settings."""
    (tmp_path / "api.pem").write_text("nonsense")
    assert shown(check(TLS)) == [("api.tls_certificate", Severity.ERROR)]
    write_pair(tmp_path, ends=NOW + timedelta(days=300))
    (tmp_path / "api.key").unlink()
    assert shown(check(TLS)) == [("api.tls_key", Severity.ERROR)]


@pytest.mark.parametrize(
    ("text", "key"),
    [
        ('[auth]\nhtpasswd = "bad"', "auth.htpasswd"),
        ('[auth]\ntoken_keys = "bad"', "auth.token_keys"),
        ('[policy]\npath = "bad"', "policy.path"),
        ('[policy]\npath = "missing"', "policy.path"),
        ('[api]\nimages = "bad"', "api.images"),
        ('[placement]\npolicy_file = "bad"', "placement.policy_file"),
        ('[bus]\nkey_file = "bad"', "bus.key_file"),
        ('[bus]\nurl = "amqps://h/"\nca_file = "bad"', "bus.ca_file"),
        ('[gateway]\nkey_file = "no-folder/keys"', "gateway.key_file"),
        ('[console]\nnovnc_dir = "missing"', "console.novnc_dir"),
        ('[zones]\nname = "z"\nkey_file = "bad"', "zones.key_file"),
        ('[keystone]\npassword_file = "missing"', "keystone.password_file"),
        ('[agent]\nfleet = "bad"', "agent.fleet"),
        ('[agent]\ngateway_url = "https://h"\nkey_file = "missing"', "agent.key_file"),
    ],
)
def test_bad_files_are_errors(check: Check, tmp_path: Path, text: str, key: str) -> None:
    """Each named file is read as the process would read it."""
    bad = tmp_path / "bad"
    bad.write_text("{ nonsense\n")
    bad.chmod(0o600)
    found = check(text)
    assert (key, Severity.ERROR) in shown(found)


def test_good_files_have_no_findings(check: Check, tmp_path: Path) -> None:
    """Valid files of keys and images are accepted, and missing files of keys are not created."""
    control_keys.create(tmp_path / "control")
    (tmp_path / "images.json").write_text("[]")
    text = '[api]\nimages = "images.json"\n[gateway]\nkey_file = "control"\n[bus]\nkey_file = "new"'
    assert check(text) == []
    assert not (tmp_path / "new").exists()


def test_a_role_checks_only_its_own_files(check: Check) -> None:
    """A scheduler does not read the agent's key, nor an agent the policy."""
    text = '[agent]\ngateway_url = "https://h"\nkey_file = "gone"\n[policy]\npath = "gone"\n'
    assert shown(check(text, Role.SCHEDULER)) == [("policy.path", Severity.ERROR)]
    assert shown(check(text, Role.AGENT)) == [("agent.key_file", Severity.ERROR)]


@pytest.mark.parametrize(
    ("text", "keys"),
    [
        ('[ledger]\nurl = "memory:"', ["ledger.url"]),
        ('[ledger]\nurl = "postgresql://u@h/d"', ["bus.url"]),
        ('[bus]\nurl = "amqp://u:p@broker.example/"', ["bus.url"]),
        ('[bus]\nurl = "amqp://u:p@127.0.0.1/"', []),
        ("[bus]\naccepts_unsigned = true", ["bus.accepts_unsigned"]),
    ],
)
def test_risky_values_are_warnings(check: Check, text: str, keys: list[str]) -> None:
    """Values that work, but slowly or dangerously, are warnings."""
    assert shown(check(text)) == [(key, Severity.WARNING) for key in keys]


def test_a_readable_file_with_a_password_is_a_warning(tmp_path: Path) -> None:
    """Other users must not read a file with a password; a file without one may be public."""
    file = tmp_path / "berth.toml"
    secret = read(tmp_path, '[bus]\nurl = "amqp://u:p@127.0.0.1/"').settings
    assert secret is not None
    file.chmod(0o644)
    found = config_file_finding(file, secret)
    assert found is not None
    assert found.severity is Severity.WARNING
    file.chmod(0o600)
    assert config_file_finding(file, secret) is None
    public = read(tmp_path, "").settings
    assert public is not None
    file.chmod(0o644)
    assert config_file_finding(file, public) is None


def test_an_agent_without_a_gateway_is_a_warning(check: Check) -> None:
    """It would open a ledger of its own; a process that is no agent needs no gateway."""
    found = shown(check('[agent]\nhost = "h1"\n', Role.AGENT))
    assert found == [("agent.gateway_url", Severity.WARNING)]
    assert not [one for one in shown(check("", Role.ALL)) if one[0] == "agent.gateway_url"]
