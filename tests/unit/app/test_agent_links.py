"""The link of an agent: which URLs and files it accepts, and what becomes of the password."""

from dataclasses import replace
from pathlib import Path

import pytest

from berth.adapters.gateway.control_pins import ControlPins, pins_path
from berth.adapters.gateway.host_key import HostKeyFile
from berth.app.agent_links import link_maker
from berth.config.agent_settings import AgentSettings
from berth.config.settings import Settings
from berth.domain.errors import InvalidInputError

PASSWORD = "tr0ub4dor"
BROKER = "amqps://broker.example:5671/berth"


@pytest.fixture
def settings(tmp_path: Path) -> Settings:
    """Return the settings of an enrolled host that uses a broker."""
    key, password = tmp_path / "agent.key", tmp_path / "password"
    HostKeyFile.create(key)
    ControlPins(pins_path(key)).save([bytes(32)])
    password.write_text(f"{PASSWORD}\n")
    password.chmod(0o600)
    agent = AgentSettings(gateway_url=BROKER, key_file=key, gateway_password_file=password)
    return Settings(agent=agent)


def with_agent(settings: Settings, **changes: object) -> Settings:
    """Return the settings with other values of the section `agent`."""
    return replace(settings, agent=replace(settings.agent, **changes))  # type: ignore[arg-type]


def test_the_scheme_chooses_the_transport(settings: Settings) -> None:
    """Both kinds of URL give a link with the key and the pins of the host."""
    for url in (BROKER, "amqp://127.0.0.1/x", "https://api.example:8774", "http://127.0.0.1:8774"):
        link = link_maker(with_agent(settings, gateway_url=url))("host-1")
        assert link.pins.keys == (bytes(32),)
    with pytest.raises(InvalidInputError, match="gateway_url"):
        link_maker(with_agent(settings, gateway_url="ftp://api.example"))


def test_simulated_hosts_have_files_in_a_folder(settings: Settings, tmp_path: Path) -> None:
    """Key, pins and password are named after the host."""
    folder = tmp_path / "fleet"
    folder.mkdir()
    HostKeyFile.create(folder / "host-1.key")
    ControlPins(pins_path(folder / "host-1.key")).save([bytes(32)])
    (folder / "host-1.password").write_text(PASSWORD)
    (folder / "host-1.password").chmod(0o600)
    fleet = with_agent(settings, key_file=folder, gateway_password_file=folder)
    assert link_maker(fleet)("host-1").pins.keys == (bytes(32),)
    with pytest.raises(InvalidInputError, match=r"host-2\.key"):
        link_maker(fleet)("host-2")


@pytest.mark.parametrize(
    ("url", "reason"),
    [
        (f"amqps://user:{PASSWORD}@broker.example/berth", "contains a password"),
        ("amqp://broker.example/berth", "unencrypted"),
        ("amqps:///berth", "must be amqps://HOST"),
        (f"amqps://broker.example/berth?password={PASSWORD}", "must be amqps://HOST"),
    ],
)
def test_a_url_that_exposes_a_password_is_refused(
    settings: Settings, url: str, reason: str
) -> None:
    """The error names the setting and never quotes the URL."""
    with pytest.raises(InvalidInputError, match=reason) as caught:
        link_maker(with_agent(settings, gateway_url=url))
    assert PASSWORD not in str(caught.value)


def test_a_broker_needs_pins_and_a_password(settings: Settings) -> None:
    """Each missing or unusable file is named at the start, before anything is connected."""
    path = settings.agent.gateway_password_file
    assert path is not None
    with pytest.raises(InvalidInputError, match="gateway_password_file"):
        link_maker(with_agent(settings, gateway_password_file=None))("host-1")
    path.chmod(0o644)
    with pytest.raises(InvalidInputError, match="chmod 600"):
        link_maker(settings)("host-1")
    path.chmod(0o600)
    path.write_text("one\ntwo\n")
    with pytest.raises(InvalidInputError, match="exactly one, the password"):
        link_maker(settings)("host-1")
    path.write_text(PASSWORD)
    pins_path(settings.agent.key_file).unlink()
    with pytest.raises(InvalidInputError, match="agent-enroll"):
        link_maker(settings)("host-1")


def test_an_unreadable_ca_file_is_named(settings: Settings, tmp_path: Path) -> None:
    """The error names the setting and the file."""
    missing = tmp_path / "ca.pem"
    with pytest.raises(InvalidInputError, match=r"gateway_ca_file.*ca\.pem"):
        link_maker(with_agent(settings, gateway_ca_file=missing))("host-1")
