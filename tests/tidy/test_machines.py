"""Nothing in the checkout depends on the machine where it was written."""

import re

import pytest

from tests.tidy.checkout import Checkout

# A letter in brackets keeps each pattern from matching itself in this file.
MACHINE = re.compile(
    r"""
    (?<![\w.~-]) / (?: [w]ork | [r]oot ) /  # folders of one machine
    | /opt/ (?: [p]ypi | [w]heels )                                    # a local package index
    | [f]ile:///                                                       # the same, as a URL
    | --(?: extra- )? [i]ndex-url                                      # an index is a setting of
    | --[f]ind-links                                                   # the developer's pip
    | [p]ythonhosted\.org
    | [p]ypi\.org/simple
    """,
    re.VERBOSE,
)


@pytest.mark.parametrize("folder", ["work", "root"])
@pytest.mark.parametrize("line", ["cd /{}/main", '"/{}/.config"', "=/{}/simple"])
def test_a_path_of_one_machine_is_found(line: str, folder: str) -> None:
    """A path below a folder of one machine is recognised."""
    assert MACHINE.search(line.format(folder))


@pytest.mark.parametrize(
    "line", ["docs/work/plan.md", "../root/x", "/workers/1", "https://pypi.org"]
)
def test_other_paths_are_not_found(line: str) -> None:
    """Relative paths, paths of an API and other web addresses are not reported."""
    assert not MACHINE.search(line)


def test_no_file_names_a_machine(checkout: Checkout) -> None:
    """No file of the checkout contains a path or a package index of one machine."""
    found = [
        f"{path}:{number} {match[0]}"
        for path in checkout.files
        for number, line in enumerate(checkout.text(path).splitlines(), start=1)
        if (match := MACHINE.search(line))
    ]
    assert found == []
