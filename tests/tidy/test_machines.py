"""Nothing in the checkout depends on the machine where it was written."""

import re

import pytest

from tests.tidy.checkout import Checkout

# A letter in brackets keeps each pattern from finding itself here.
MACHINE = re.compile(
    r"""
    (?<![\w.~-]) / (?: [w]ork | [r]oot ) /  # folders of one machine
    | /opt/ (?: [p]ypi | [w]heels )                                    # a local package index
    | [f]ile:///                                                       # likewise
    | --(?: extra- )? [i]ndex-url                                      # an index is settings,
    | --[f]ind-links                                                   # and settings are pip's
    | [p]ythonhosted\.org
    | [p]ypi\.org/simple
    """,
    re.VERBOSE,
)


@pytest.mark.parametrize("folder", ["work", "root"])
@pytest.mark.parametrize("line", ["cd /{}/main", '"/{}/.config"', "=/{}/simple"])
def test_a_path_of_one_machine_is_found(line: str, folder: str) -> None:
    """What must not be committed is recognised."""
    assert MACHINE.search(line.format(folder))


@pytest.mark.parametrize(
    "line", ["docs/work/plan.md", "../root/x", "/workers/1", "https://pypi.org"]
)
def test_other_paths_are_not_found(line: str) -> None:
    """A path inside the checkout, or of an API, belongs to no machine."""
    assert not MACHINE.search(line)


def test_no_file_names_a_machine(checkout: Checkout) -> None:
    """Another developer, elsewhere, can use every file as it is."""
    found = [
        f"{path}:{number} {match[0]}"
        for path in checkout.files
        for number, line in enumerate(checkout.text(path).splitlines(), start=1)
        if (match := MACHINE.search(line))
    ]
    assert found == []
