"""Code, comments and documents cite only files, sections and decision records that exist."""

import ast
import re
from pathlib import Path

import pytest

from tests.tidy.checkout import Checkout

# The letter in brackets keeps the pattern from matching itself in this file.
RECORD = re.compile(r"\bAD[R]s? ?(\d{1,4})(?: and (\d{1,4}))?")
DOCUMENT = re.compile(r"(?<![\w/.:-])((?:docs/)?(?:[\w-]+/)*[a-z][\w-]*\.md)\b")
SECTION = re.compile(r"nova-behaviour\.md[`)]*,? ((?:\d+(?:\.\d+)?(?:, )?)+)")
HEADING = re.compile(r"^#{2,3} (\d+(?:\.\d+)?)\.? ", re.MULTILINE)
BEHAVIOUR = Path("docs/reference/nova-behaviour.md")
CITING = (".py", ".md", ".c", ".toml")


def records_cited(text: str) -> set[int]:
    """Return the numbers of the decision records that a text cites."""
    return {int(number) for match in RECORD.finditer(text) for number in match.groups() if number}


def sections_cited(text: str) -> set[str]:
    """Return the sections of the page on Nova's behaviour that a text cites."""
    return {
        number for match in SECTION.finditer(text) for number in match[1].strip(", ").split(", ")
    }


@pytest.mark.parametrize(
    ("text", "records", "sections"),
    [
        ("see ADR 7 and nova-behaviour.md 2.6, 6.2.", {7}, {"2.6", "6.2"}),
        ("(nova-behaviour.md 3), ADR 0016", {16}, {"3"}),
        ("ADRs 4 and 21", {4, 21}, set()),
        ("nothing cited", set(), set()),
    ],
)
def test_citations_are_found(text: str, records: set[int], sections: set[str]) -> None:
    """A decision record is cited by its number, a section of the page by the page's name."""
    assert records_cited(text) == records
    assert sections_cited(text) == sections


def prose_of(path: Path, text: str) -> str:
    """Return the text of a file; for a test file only its comments and docstrings.

    Strings in tests are examples and may name documents that do not exist.
    """
    if path.suffix != ".py" or not path.is_relative_to("tests") or not DOCUMENT.search(text):
        return text
    nodes = (ast.Module, ast.ClassDef, ast.FunctionDef, ast.AsyncFunctionDef)
    docstrings = [
        ast.get_docstring(node) or ""
        for node in ast.walk(ast.parse(text))
        if isinstance(node, nodes)
    ]
    comments = [line for line in text.splitlines() if line.lstrip().startswith("#")]
    return "\n".join((*docstrings, *comments))


def test_examples_of_tests_are_no_citations() -> None:
    """In a test file, docstrings and comments cite documents; other strings do not."""
    code = '"""See a.md."""\n# and b.md\nNAME = "c.md"\n'
    assert DOCUMENT.findall(prose_of(Path("tests/test_x.py"), code)) == ["a.md", "b.md"]
    assert DOCUMENT.findall(prose_of(Path("src/x.py"), code)) == ["a.md", "b.md", "c.md"]


def citing(checkout: Checkout) -> list[Path]:
    """Return the files whose citations are checked."""
    return [path for path in checkout.files if path.suffix in CITING]


def records(checkout: Checkout) -> list[Path]:
    """Return the decision records, without the list of them."""
    return [path for path in checkout.below("docs/adr", ".md") if path.name != "README.md"]


def test_every_decision_record_cited_exists(checkout: Checkout) -> None:
    """A reader who follows `ADR 13` finds docs/adr/0013-*.md."""
    there = {int(path.name[:4]) for path in records(checkout)}
    missing = [
        f"{path}: ADR {number}"
        for path in citing(checkout)
        for number in sorted(records_cited(checkout.text(path)) - there)
    ]
    assert missing == []


def test_every_section_cited_exists(checkout: Checkout) -> None:
    """A reader who follows `nova-behaviour.md 2.6` finds that heading."""
    there = set(HEADING.findall(checkout.text(BEHAVIOUR)))
    missing = [
        f"{path}: {section}"
        for path in citing(checkout)
        for section in sorted(sections_cited(checkout.text(path)) - there)
    ]
    assert there
    assert missing == []


def test_every_document_cited_exists(checkout: Checkout) -> None:
    """Each Markdown file that code or a comment names exists somewhere in the checkout."""
    names = {path.name for path in checkout.files if path.suffix == ".md"}
    missing = [
        f"{path}: {cited}"
        for path in citing(checkout)
        if path.suffix != ".md"
        for cited in sorted(set(DOCUMENT.findall(prose_of(path, checkout.text(path)))))
        if Path(cited).name not in names
    ]
    assert missing == []


def test_each_decision_record_has_a_number_of_its_own(checkout: Checkout) -> None:
    """A citation by number is unambiguous: the name and the heading of a record agree."""
    found = records(checkout)
    numbers = [path.name.partition("-")[0] for path in found]
    assert len(numbers) == len(set(numbers)), sorted(numbers)
    for path, number in zip(found, numbers, strict=True):
        assert checkout.text(path).startswith(f"# {int(number)}. "), path
