"""Settings that are URLs: a malformed one is refused at the start, by the key of the setting."""

from typing import Any

import pytest

from berth.config.settings import Settings
from berth.config.settings_reader import read_settings
from berth.domain.errors import InvalidInputError

SECRET = "s3same"
# What may follow the scheme of a URL, and cannot be the address of a server.
BROKEN = [
    f"u:{SECRET}@h:abc/x",
    f"u:{SECRET}@h:65536/x",
    f"u:{SECRET}@h:0/x",
    f"u:{SECRET}@h:-1/x",
    f"u:{SECRET}@[::1/x",
    f"u:{SECRET}@[::zz]/x",
    f"u:{SECRET}@/x",
    f"u:{SECRET}@h\n/x",
    f"u:{SECRET}@h /x",
    f":{SECRET}@:5672/x",
]
SCHEMES = {
    "bus__url": ("amqp", "amqps"),
    "agent__gateway_url": ("http", "https", "amqp", "amqps"),
    "attestation__url": ("https",),
    "tracing__endpoint": ("http", "https"),
    "ledger__url": ("postgresql",),
}


def settings(**options: Any) -> Settings:  # noqa: ANN401 - whatever the command line gives
    """Read settings from options only."""
    given = {option.replace("__", "."): value for option, value in options.items()}
    return read_settings(None, {}, given)


@pytest.mark.parametrize(
    ("option", "rest"),
    [
        (option, rest)
        for option in SCHEMES
        for rest in BROKEN
        # A PostgreSQL server may be a local socket, without a host in the URL.
        if option != "ledger__url" or "@/" not in rest
    ],
)
def test_a_malformed_url_is_refused_by_its_key(option: str, rest: str) -> None:
    """The error names the setting and a valid form, and never quotes the URL."""
    for scheme in SCHEMES[option]:
        with pytest.raises(InvalidInputError) as refused:
            settings(**{option: f"{scheme}://{rest}"})
        assert refused.value.field == option.replace("__", ".")
        assert "must be" in refused.value.reason
        assert SECRET not in str(refused.value)


@pytest.mark.parametrize(
    ("option", "url"),
    [
        ("bus__url", f"amqp://u:{SECRET}@h"),
        ("bus__url", f"amqps://u:{SECRET}@[::1]:5671/x"),
        ("agent__gateway_url", "https://control.example:8774"),
        ("agent__gateway_url", "amqps://broker.example/berth"),
        ("attestation__url", "https://attester/V1.0"),
        ("tracing__endpoint", "http://127.0.0.1:4318/v1/traces"),
        ("ledger__url", "memory:"),
        ("ledger__url", "sqlite:////var/lib/berth/a b.sqlite"),
        ("ledger__url", f"postgresql://u:{SECRET}@h/db"),
        ("ledger__url", "postgresql://u@h:5432,h2:5433/db?sslmode=require"),
        ("ledger__url", "postgresql://u@[::1]:5432/db"),
        ("ledger__url", "postgresql:///db?host=/run/postgresql"),
    ],
)
def test_other_urls_are_read(option: str, url: str) -> None:
    """A URL of a valid form is kept as it is."""
    section, _, key = option.partition("__")
    assert getattr(getattr(settings(**{option: url}), section), key) == url


@pytest.mark.parametrize(
    "url",
    [
        "",
        "ledger.db",
        "mysql://h/db",
        "sqlite:///",
        "sqlite://x",
        "postgresql://",
        "postgresql://h",
    ],
)
def test_other_ledgers_are_refused(url: str) -> None:
    """The error names the forms that a ledger's URL may have."""
    with pytest.raises(InvalidInputError, match="sqlite:///PATH") as refused:
        settings(ledger__url=url)
    assert refused.value.field == "ledger.url"
