"""The settings that a process logs at its start."""

from pathlib import Path

from berth.config.api_settings import ApiSettings
from berth.config.settings import LedgerSettings, Settings
from berth.config.settings_changes import changed_settings
from berth.config.telemetry_settings import LogSettings


def test_defaults_are_left_out() -> None:
    """Only settings that differ from their defaults are listed."""
    assert changed_settings(Settings()) == {}
    settings = Settings(log=LogSettings(level="debug"), api=ApiSettings(images=Path("i.json")))
    assert changed_settings(settings) == {"log.level": "debug", "api.images": "i.json"}


def test_secrets_are_hidden() -> None:
    """Settings that may contain a password are masked."""
    settings = Settings(ledger=LedgerSettings(url="postgresql://berth:hunter2@db/berth"))
    assert changed_settings(settings) == {"ledger.url": "***"}
