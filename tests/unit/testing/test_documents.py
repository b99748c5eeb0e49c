"""Pages are executed as they read: all blocks in one shell, in order, with loose comparison."""

import os
from pathlib import Path

import pytest

from tests.documents import Step, missing_lines, run_steps, steps_of

PAGE = """# A page

```sh
name=web
echo "$name has 3 of 12,000 GB"
```

```text
web has 4 of 10 GB
```

1. A list:

   ```sh
   cat <<END
   again $name
   END
   ```

   ```text
   again …
   ```

```toml
no = "command"
```
"""


def test_blocks_are_found_with_the_output_that_follows() -> None:
    """Blocks of `sh` are steps, those of `text` their output; an indent of a list is removed."""
    first, second = steps_of(PAGE)
    assert first.shown == ["web has 4 of 10 GB"]
    assert second == Step("cat <<END\nagain $name\nEND", ["again …"])


def test_a_page_is_executed_in_one_shell(tmp_path: Path) -> None:
    """A later block has the variables of an earlier one, and outputs belong to their blocks."""
    steps = steps_of(PAGE)
    outputs = run_steps(steps, tmp_path, os.environ, 10.0)
    assert outputs == ["web has 3 of 12,000 GB\n", "again web\n"]
    assert [missing_lines(*pair) for pair in zip(steps, outputs, strict=True)] == [[], []]


def test_output_without_a_newline_belongs_to_its_block(tmp_path: Path) -> None:
    """A command that ends its output without a newline does not hide the next block."""
    steps = [Step("printf one"), Step("echo two")]
    assert run_steps(steps, tmp_path, os.environ, 10.0) == ["one", "two\n"]


def test_a_command_that_fails_is_named(tmp_path: Path) -> None:
    """The error has the block and what was printed before."""
    steps = [Step("echo one"), Step("cat missing-file"), Step("echo never")]
    with pytest.raises(AssertionError, match=r"(?s)in\ncat missing-file.*one") as caught:
        run_steps(steps, tmp_path, os.environ, 10.0)
    assert "never" not in str(caught.value)


@pytest.mark.parametrize(
    ("shown", "printed", "is_there"),
    [
        ("ID    Name", "ID Name  Host", True),
        (
            "6361448b-d92f-53ef-9d14-613d74d7e49a  web",
            "00000000-0000-0000-0000-000000000000 web",
            True,
        ),
        ("3 of 4 moved", "30 of 40 moved", True),
        ("3 of 4 moved", "3 of 4 left", False),
        ("a … d", "a b c d", True),
        ("fake-00001 up", "fake-00002  up", True),
        ("ACTIVE", "ERROR", False),
    ],
)
def test_output_is_compared_loosely(shown: str, printed: str, is_there: bool) -> None:
    """Numbers, ids and columns may differ; words may not."""
    assert (missing_lines(Step("", [shown]), printed) == []) is is_there
