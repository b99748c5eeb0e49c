"""The policy file of the Placement API."""

from pathlib import Path

import pytest

from berth.config.placement_policy_file import parse_placement_policy, read_placement_policy
from berth.domain.errors import InvalidInputError

LINES = """\
---
# Who may look.
"placement:traits:list": "@"   # everybody
'placement:traits:show': 'role:reader and project_id:%(project_id)s'
admin_api: role:boss or role:admin
"placement:usages": ""
#"placement:reshaper:reshape": "!"

service_api:
"""


def test_lines_of_rules() -> None:
    """Lines in the form of OpenStack's policy.yaml are read, with or without quotes."""
    assert parse_placement_policy(LINES, "p") == {
        "placement:traits:list": "@",
        "placement:traits:show": "role:reader and project_id:%(project_id)s",
        "admin_api": "role:boss or role:admin",
        "placement:usages": "",
        "service_api": "",
    }


def test_an_object_of_rules() -> None:
    """A JSON object of rules is read."""
    text = '\n{"placement:traits:list": "@", "admin_api": ""}'
    assert parse_placement_policy(text, "p") == {"placement:traits:list": "@", "admin_api": ""}


@pytest.mark.parametrize(
    ("text", "where"),
    [
        ('"a": "@"\nnonsense', "p: line 2: must have the form"),
        ('"a": "@', "p: line 1"),
        ('"a": "@" "b": "@"', "p: line 1"),
        ("rules:\n  - a", "p: line 2"),
        ('"a": "@"\n"a": "!"', "p: line 2: repeats rule 'a'"),
        ('{"a": 1}', "p: is not a JSON object of strings"),
        ('{"a": "@"', "p: is not a JSON object of strings"),
    ],
)
def test_what_is_no_policy(text: str, where: str) -> None:
    """An invalid file is refused, and the error names the line."""
    with pytest.raises(InvalidInputError) as caught:
        parse_placement_policy(text, "p")
    assert where in str(caught.value)


def test_a_file_is_read(tmp_path: Path) -> None:
    """Without a file there are no rules; an unreadable or too large file is an error."""
    assert read_placement_policy(None) == {}
    file = tmp_path / "policy.yaml"
    file.write_text('"a": "@"\n')
    assert read_placement_policy(file) == {"a": "@"}
    file.write_bytes(b"\xff")
    with pytest.raises(InvalidInputError, match="not UTF-8"):
        read_placement_policy(file)
    with pytest.raises(InvalidInputError, match="cannot be read"):
        read_placement_policy(tmp_path / "nowhere")
    file.write_text("#" * (1024 * 1024 + 1))
    with pytest.raises(InvalidInputError, match="is larger than"):
        read_placement_policy(file)


@pytest.mark.parametrize("content", ["#" + "é" * (512 * 1024), "#" * (1024 * 1024 - 1) + "é"])
def test_the_size_of_a_file_counts_in_bytes(tmp_path: Path, content: str) -> None:
    """A file with fewer characters than the limit but more bytes is too large."""
    file = tmp_path / "policy.yaml"
    file.write_text(content, encoding="utf-8")
    with pytest.raises(InvalidInputError, match="is larger than"):
        read_placement_policy(file)
