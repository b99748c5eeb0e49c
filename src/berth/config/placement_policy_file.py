"""The Placement API's policy file: lines of the form `"rule": "check"`, or one JSON object."""

import json
import re
from collections.abc import Mapping
from pathlib import Path

import msgspec

from berth.domain.errors import InvalidInputError

_FILE_BYTES_MAX = 1024 * 1024
# OpenStack's policy files are flat YAML. A regular expression for that subset needs no YAML parser,
# and refuses everything else with its line number.
_TEXT = r"""(?:"(?P<{0}_2>[^"]*)"|'(?P<{0}_1>[^']*)'|(?P<{0}_0>[^"'#][^#]*?))"""
_NAME = r"""(?:"(?P<name_2>[^"]+)"|'(?P<name_1>[^']+)'|(?P<name_0>[\w:.-]+?))"""
_LINE = re.compile(rf"{_NAME}\s*:(?:\s+{_TEXT.format('check')})?\s*(?:#.*)?")


def read_placement_policy(path: Path | None) -> dict[str, str]:
    """Return an operator's rules by name; empty if `path` is None.

    Args:
        path: a file with lines in the form of OpenStack's `policy.yaml` (comments start with `#`),
            or with one JSON object.

    Raises:
        InvalidInputError: the file cannot be read, is too large, or contains a malformed or
            repeated rule.
    """
    if path is None:
        return {}
    try:
        with path.open("rb") as file:
            content = file.read(_FILE_BYTES_MAX + 1)
    except OSError as error:
        raise InvalidInputError(
            str(path), f"cannot be read ({error.strerror}); check the path and its permissions"
        ) from error
    # The size is checked before decoding, since it counts bytes, and the limit may cut a character
    # in two.
    if len(content) > _FILE_BYTES_MAX:
        raise InvalidInputError(str(path), f"is larger than {_FILE_BYTES_MAX:,} bytes, the maximum")
    try:
        text = content.decode()
    except UnicodeDecodeError as error:
        raise InvalidInputError(str(path), "is not UTF-8 text; convert it") from error
    return parse_placement_policy(text, str(path))


def parse_placement_policy(text: str, source: str) -> dict[str, str]:
    """Return the rules in the content of a policy file, by name.

    Raises:
        InvalidInputError: a line is malformed or repeats a rule, or the JSON is not an object of
            strings.
    """
    if text.lstrip().startswith("{"):
        return _from_json(text, source)
    rules: dict[str, str] = {}
    for number, line in enumerate(text.splitlines(), start=1):
        stripped = line.strip()
        if not stripped or stripped.startswith("#") or stripped == "---":
            continue
        found = _LINE.fullmatch(stripped)
        if found is None:
            reason = 'must have the form "rule": "check"'
            raise InvalidInputError(f"{source}: line {number}", reason)
        name = _first(found.groupdict(), "name")
        if name in rules:
            raise InvalidInputError(
                f"{source}: line {number}", f"repeats rule {name!r}; keep one of the two lines"
            )
        rules[name] = _first(found.groupdict(), "check")
    return rules


def _from_json(text: str, source: str) -> dict[str, str]:
    try:
        return msgspec.convert(json.loads(text), dict[str, str])
    except (ValueError, RecursionError, msgspec.ValidationError) as error:
        raise InvalidInputError(source, f"is not a JSON object of strings ({error})") from error


def _first(groups: Mapping[str, str | None], key: str) -> str:
    found = (groups[f"{key}_{quotes}"] for quotes in (2, 1, 0))
    return next((text for text in found if text is not None), "")
