"""The settings that differ from their defaults, for the log and the audit log."""

from dataclasses import fields

from berth.config.settings import Settings
from berth.domain.secret_names import HIDDEN
from berth.domain.url_redaction import redact_accounts


def changed_settings(settings: Settings) -> dict[str, str]:
    """Return the settings that differ from their defaults, by `section.key`, without secrets."""
    defaults, found = Settings(), dict[str, str]()
    for one in fields(settings):
        section, default = getattr(settings, one.name), getattr(defaults, one.name)
        for key in fields(section):
            value = getattr(section, key.name)
            if value != getattr(default, key.name):
                shown = redact_accounts(str(value)) if key.repr else HIDDEN
                found[f"{one.name}.{key.name}"] = shown
    return found
