"""Settings: three sources with increasing precedence, and their errors."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from berth.config.api_settings import AuthMode
from berth.config.setting_values import Address, parse_address
from berth.config.settings import Settings
from berth.config.settings_reader import read_settings
from berth.config.telemetry_settings import LogFormat
from berth.domain.errors import InvalidInputError


def settings(
    text: str | None = None,
    environ: Mapping[str, str] | None = None,
    folder: Path | None = None,
    **options: object,
) -> Settings:
    """Return the settings that are read; an option is given as `section__key`."""
    file = None
    if text is not None and folder is not None:
        file = folder / "berth.toml"
        file.write_text(text)
    named = {key.replace("__", "."): value for key, value in options.items()}
    return read_settings(file, environ or {}, named)


def refusal(
    text: str | None = None,
    environ: Mapping[str, str] | None = None,
    folder: Path | None = None,
    **options: object,
) -> InvalidInputError:
    """Return the error for invalid settings."""
    with pytest.raises(InvalidInputError) as caught:
        settings(text, environ, folder, **options)
    return caught.value


def test_the_defaults_are_safe() -> None:
    """The defaults are loopback, noauth and the documented limits."""
    found = settings()
    assert str(found.api.listen) == "127.0.0.1:8774"
    assert found.auth.mode is AuthMode.NOAUTH
    assert found.api.body_bytes_max == 1024 * 1024
    assert found.agent.heartbeat_interval_s == 10.0
    assert found.scheduler.claim_attempts_max == 5
    assert found.scheduler.build_attempts_max == 3
    assert found.api.default_availability_zone == "nova"
    assert found.ledger.url is None
    assert found.policy.path is None


def test_an_option_beats_the_environment_and_that_beats_the_file(tmp_path: Path) -> None:
    """Each source overrides the lower one key by key."""
    text = "[scheduler]\nclaim_attempts_max = 7\nbuild_attempts_max = 8\n[agent]\nvcpus = 1\n"
    environ = {"BERTH_SCHEDULER_BUILD_ATTEMPTS_MAX": "9", "BERTH_AGENT_VCPUS": "2"}
    found = settings(text, environ, tmp_path, agent__vcpus=3, agent__disk_gb=None)
    assert found.scheduler.claim_attempts_max == 7
    assert found.scheduler.build_attempts_max == 9
    assert found.agent.vcpus == 3
    assert found.agent.disk_gb == 2_000


def test_the_environment_is_read_as_text() -> None:
    """Numbers, booleans, paths, addresses and enum values are parsed from text."""
    found = settings(
        environ={
            "BERTH_API_LISTEN": "[::1]:9000",
            "BERTH_API_INSECURE_LISTEN": "true",
            "BERTH_AGENT_HEARTBEAT_INTERVAL_S": "0.5",
            "BERTH_POLICY_PATH": "p.toml",
            "BERTH_LOG_FORMAT": "json",
            "BERTH_LEDGER_URL": "postgresql://h/db",
            "BERTH_AUTH_HTPASSWD": "",
        }
    )
    assert found.api.listen == Address("::1", 9000)
    assert found.api.insecure_listen
    assert found.agent.heartbeat_interval_s == 0.5
    assert found.policy.path == Path("p.toml")
    assert found.log.format is LogFormat.JSON
    assert found.ledger.url == "postgresql://h/db"
    assert found.auth.htpasswd is None


def test_a_list_in_the_environment_has_commas() -> None:
    """`a, b` is a list of two values."""
    settings = read_settings(None, {"BERTH_AUTH_ADMINS": "root, ops"}, {})
    assert settings.auth.admins == ("root", "ops")


def test_other_variables_are_not_ours() -> None:
    """Variables of the client, of tests and of Kubernetes are ignored."""
    environ = {
        "BERTH_URL": "http://x",
        "BERTH_TEST_POSTGRES_URL": "x",
        "BERTH_API_PORT": "tcp://10.0.0.1:8774",
        "BERTH_API_PORT_8774_TCP_ADDR": "10.0.0.1",
        "BERTH_API_SERVICE_HOST": "10.0.0.1",
        "HOME": "/",
    }
    assert settings(environ=environ) == settings()


def test_paths_in_the_file_are_relative_to_it(tmp_path: Path) -> None:
    """A relative path in the file is relative to the file's folder."""
    found = settings('[policy]\npath = "p.toml"\n[ledger]\ndata_dir = "/data"\n', {}, tmp_path)
    assert found.policy.path == tmp_path / "p.toml"
    assert found.ledger.data_dir == Path("/data")


@pytest.mark.parametrize(
    ("text", "field", "reason"),
    [
        ("[apis]\n", "apis", "did you mean 'api'?"),
        ("api = 1\n", "api", "write [api]"),
        ("[api]\nlistn = 1\n", "api.listn", "did you mean 'api.listen'?"),
        ("[api]\nlisten = 8774\n", "api.listen", "must be HOST:PORT"),
        ("[api]\ninsecure_listen = 1\n", "api.insecure_listen", "got `int`"),
        ('[scheduler]\nclaim_attempts_max = "3"\n', "scheduler.claim_attempts_max", "got `str`"),
        ("[scheduler]\nclaim_attempts_max = 0\n", "scheduler.claim_attempts_max", ">= 1"),
        ("[agent]\nheartbeat_interval_s = nan\n", "agent.heartbeat_interval_s", "> 0"),
        ("[agent]\nheartbeat_interval_s = inf\n", "agent.heartbeat_interval_s", "<= 86400"),
        ("[policy]\npath = 3\n", "policy.path", "must be a string"),
        ('[auth]\nmode = "basic"\n', "auth.mode", "one of noauth, noauth2, http_basic"),
        ('[log]\nlevel = "loud"\n', "log.level", "matching regex"),
    ],
)
def test_what_is_wrong_in_the_file_is_named_with_its_place(
    text: str, field: str, reason: str, tmp_path: Path
) -> None:
    """The error names the file, the key and the reason."""
    error = refusal(text, {}, tmp_path)
    assert error.field == f"{tmp_path / 'berth.toml'}: {field}"
    assert reason in error.reason


def test_a_file_that_is_no_toml_or_not_there_is_named(tmp_path: Path) -> None:
    """The error has the line of invalid TOML, or the path of a missing file."""
    assert "line 2" in refusal("[api]\nx = =\n", {}, tmp_path).reason
    with pytest.raises(InvalidInputError, match=r"nowhere\.toml: cannot be read"):
        read_settings(tmp_path / "nowhere.toml", {}, {})


@pytest.mark.parametrize(
    ("variable", "value", "reason"),
    [
        ("BERTH_API_LISTN", "x", "did you mean 'api.listen'?"),
        ("BERTH_API_LISTEN", "localhost", "must be HOST:PORT"),
        ("BERTH_AGENT_VCPUS", "-1", ">= 0"),
        ("BERTH_AGENT_VCPUS", "many", "got `str`"),
        ("BERTH_API_INSECURE_LISTEN", "maybe", "got `str`"),
    ],
)
def test_a_wrong_variable_is_named(variable: str, value: str, reason: str) -> None:
    """The error names the variable."""
    error = refusal(environ={variable: value})
    assert error.field == variable
    assert reason in error.reason


@pytest.mark.parametrize("listen", ["0.0.0.0:8774", "[::]:1", "192.0.2.1:80", "example.org:80"])
def test_noauth_stays_on_this_machine(listen: str) -> None:
    """A public address needs authentication or `--insecure-listen`."""
    error = refusal(api__listen=listen)
    assert error.field == "api.listen"
    assert "--insecure-listen" in error.reason
    assert settings(api__listen=listen, api__insecure_listen=True).api.insecure_listen
    settings(api__listen=listen, auth__mode="http_basic", auth__htpasswd="users")
    settings(api__listen=listen, auth__mode="identity", auth__htpasswd="users")


@pytest.mark.parametrize("listen", ["127.0.0.1:0", "127.9.9.9:80", "[::1]:80", "localhost:65535"])
def test_loopback_needs_no_word(listen: str) -> None:
    """A loopback address is allowed with noauth."""
    assert str(settings(api__listen=listen).api.listen) == listen


def test_http_basic_needs_users() -> None:
    """The modes http_basic and identity require a file of users."""
    assert refusal(auth__mode="http_basic").field == "auth.htpasswd"
    assert refusal(auth__mode="identity").field == "auth.htpasswd"


def test_an_agent_answers_for_one_kind_of_hosts() -> None:
    """A host name and a number of fake hosts exclude each other."""
    error = refusal(agent__host="h", agent__fake_hosts=2)
    assert error.field == "agent.fake_hosts"
    assert "agent.host" in error.reason
    assert settings(agent__host="h", agent__fake_hosts=0).agent.host == "h"


def test_real_guests_run_on_the_host_that_is_named() -> None:
    """A real driver cannot be used with fake hosts."""
    error = refusal(agent__driver="qemu", agent__fake_hosts=2)
    assert error.field == "agent.fake_hosts"
    assert "fake driver" in error.reason
    found = settings(agent__driver="qemu", agent__host="h", virt__type="kvm")
    assert (found.agent.driver, found.virt.type) == ("qemu", "kvm")


def test_the_machine_of_guests_has_a_version() -> None:
    """A machine type without a version is refused, as its meaning changes with upgrades."""
    assert refusal(virt__machine="q35").field == "virt.machine"
    assert settings(virt__machine="pc-i440fx-9.2").virt.machine == "pc-i440fx-9.2"


def test_attestations_come_by_https() -> None:
    """The attestation URL must be HTTPS, and its secret is not in the repr."""
    assert refusal(attestation__url="http://attester/V1.0").field == "attestation.url"
    found = settings(attestation__url="https://attester/V1.0", attestation__auth_blob="hush-hush")
    assert (found.attestation.valid_s, found.attestation.timeout_s) == (60, 10)
    assert "hush-hush" not in repr(found)


def test_a_password_in_the_url_is_not_shown() -> None:
    """The repr of the settings does not contain the ledger's password."""
    assert "hush-hush" not in repr(settings(ledger__url="postgresql://u:hush-hush@h/db"))


@pytest.mark.parametrize(
    "text", ["", ":80", "h", "h:", "h:-1", "h:65536", "h:8x", "::1:80", "[h]:80", "[::1]", "h:1:2"]
)
def test_an_address_that_is_none_is_refused(text: str) -> None:
    """Only HOST:PORT and [IPV6]:PORT are accepted."""
    with pytest.raises(ValueError, match="must be HOST:PORT"):
        parse_address(text)


@pytest.mark.parametrize("network", ["proxy.example", "10.0.0.0/33", "10.0.0.1/24", "*", ""])
def test_a_proxy_is_an_address_or_a_network(network: str) -> None:
    """The error for a malformed entry names the setting; the wildcard is not an entry."""
    with pytest.raises(InvalidInputError, match=r"api\.trusted_proxies.* must be an address or a"):
        read_settings(None, {}, {"api.trusted_proxies": [network]})
    found = read_settings(None, {"BERTH_API_TRUSTED_PROXIES": "10.0.0.9,fd00::/8"}, {})
    assert found.api.trusted_proxies == ("10.0.0.9", "fd00::/8")
    assert read_settings(None, {}, {}).api.trusted_proxies == ()


@pytest.mark.parametrize("mode", ["noauth", "noauth2"])
@pytest.mark.parametrize("section", ["api", "placement"])
def test_believing_everybody_is_for_loopback(mode: str, section: str) -> None:
    """Without authentication, both APIs refuse a public address unless it is allowed explicitly."""
    listen: dict[str, Any] = {f"{section}__listen": "0.0.0.0:1", "auth__mode": mode}
    error = refusal(**listen)
    assert f"{section}.listen: with {mode} everyone who can reach 0.0.0.0:1" in str(error)
    assert settings(**listen, api__insecure_listen=True).auth.mode is AuthMode(mode)


def test_settings_of_the_placement_api() -> None:
    """The settings of the Placement API are read, with lists from variables."""
    found = settings(
        environ={
            "BERTH_PLACEMENT_CORS_ORIGINS": "http://a, http://b",
            "BERTH_PLACEMENT_ENFORCE_NEW_DEFAULTS": "true",
        },
        placement__policy_file="rules.yaml",
    ).placement
    assert str(found.listen) == "127.0.0.1:8778"
    assert found.cors_origins == ("http://a", "http://b")
    assert found.enforce_new_defaults
    assert found.policy_file == Path("rules.yaml")


@pytest.mark.parametrize(
    ("options", "key"),
    [
        ({"bus__url": "http://user:s3same@host/"}, "bus.url"),
        ({"bus__url": "user:s3same@host"}, "bus.url"),
        ({"bus__url": "amqp://"}, "bus.url"),
        ({"bus__url": "amqp://user:s3same@host/", "bus__ca_file": "ca.pem"}, "bus.ca_file"),
        ({"bus__notifications": "true"}, "bus.notifications"),
        ({"gateway__rabbitmq": "true"}, "gateway.rabbitmq"),
        ({"bus__prefix": "a.b"}, "option bus.prefix"),
    ],
)
def test_a_wrong_bus_is_refused_without_its_password(options: dict[str, Any], key: str) -> None:
    """The error does not contain the password of the URL."""
    error = refusal(**options)
    assert error.field == key
    assert "s3same" not in str(error)


def test_a_bus_is_read_and_its_password_not_shown() -> None:
    """The URL is read from its variable and is not in the repr."""
    url = "amqps://user:s3same@host:5671/berth"
    read = settings(environ={"BERTH_BUS_URL": url}, bus__notifications="true")
    assert read.bus.url == url
    assert read.bus.notifications
    assert "s3same" not in repr(read)
