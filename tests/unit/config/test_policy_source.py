"""The policy in force, which follows its file and survives an invalid one."""

import os
from pathlib import Path

import pytest

from berth.config.policy_source import PolicySource
from berth.domain.errors import PolicyError

GOOD = 'name = "{name}"\n[[filters]]\nname = "ResourcesFilter"\n'


class StopWatchingError(Exception):
    """Ends a watch, which would otherwise continue for ever."""


class StepClock:
    """A clock that runs one step of the test at each sleep, and then ends the watch."""

    def __init__(self, steps: list[object]) -> None:
        self.steps = steps
        self.slept: list[float] = []

    def now_s(self) -> float:
        """Return 0."""
        return 0.0

    def ticks_ns(self) -> int:
        """Return 0."""
        return 0

    async def sleep(self, seconds: float) -> None:
        """Run the next step, or raise StopWatchingError if there is none."""
        self.slept.append(seconds)
        if not self.steps:
            raise StopWatchingError
        step = self.steps.pop(0)
        if callable(step):
            step()


def write(path: Path, text: str, *, at_ns: int) -> None:
    """Write a file with a modification time."""
    path.write_text(text)
    os.utime(path, ns=(at_ns, at_ns))


@pytest.fixture
def path(tmp_path: Path) -> Path:
    """Return a policy file whose policy has the name `first`."""
    path = tmp_path / "policy.toml"
    write(path, GOOD.format(name="first"), at_ns=1)
    return path


def source_of(path: Path | None) -> PolicySource:
    """Return a source whose clock advances by a second at each reading."""
    times = iter(range(100, 200))
    return PolicySource(path, now_s=lambda: float(next(times)))


def test_the_file_is_read_at_the_start(path: Path) -> None:
    """The policy is in force immediately."""
    source = source_of(path)
    assert source.policy.name == "first"
    assert source.loaded_at == 100.0
    assert source.last_error is None


def test_without_a_file_the_default_policy_stays() -> None:
    """A reload without a file changes nothing."""
    source = source_of(None)
    assert source.policy.name == "default"
    assert not source.reload()
    assert not source.reload_if_touched()


def test_a_wrong_file_at_the_start_is_refused(path: Path) -> None:
    """An invalid file at the start raises an error."""
    path.write_text("name = 1")
    with pytest.raises(PolicyError):
        source_of(path)


def test_a_changed_file_comes_into_force(path: Path) -> None:
    """A reload returns whether the policy has changed."""
    source = source_of(path)
    assert not source.reload()
    write(path, GOOD.format(name="second"), at_ns=2)
    assert source.reload()
    assert source.policy.name == "second"
    assert source.loaded_at == 101.0
    assert not source.reload()
    assert source.loaded_at == 101.0


@pytest.mark.parametrize("text", ["name = 1", "name =", ""])
def test_a_wrong_file_changes_nothing_but_the_error(path: Path, text: str) -> None:
    """The old policy stays in force, with an error until the file is valid again."""
    source = source_of(path)
    write(path, text, at_ns=2)
    assert not source.reload()
    assert source.policy.name == "first"
    assert source.loaded_at == 100.0
    assert source.last_error
    assert str(path) in source.last_error
    write(path, GOOD.format(name="first"), at_ns=3)
    assert not source.reload()
    assert source.last_error is None


def test_a_file_that_went_away_changes_nothing_but_the_error(path: Path) -> None:
    """A deleted file leaves the policy in force and sets the error."""
    source = source_of(path)
    path.unlink()
    assert not source.reload_if_touched()
    assert source.policy.name == "first"
    assert source.last_error
    assert "cannot be read" in source.last_error


async def test_watching_reloads_what_was_touched(path: Path) -> None:
    """The watch reads a file that was rewritten, and survives an invalid one."""
    source = source_of(path)
    seen: list[str] = []
    clock = StepClock(
        [
            lambda: seen.append(source.policy.name),
            lambda: write(path, GOOD.format(name="second"), at_ns=2),
            lambda: seen.append(source.policy.name),
            lambda: write(path, "name = 1", at_ns=3),
            lambda: seen.append(source.policy.name),
            lambda: write(path, GOOD.format(name="third"), at_ns=4),
        ]
    )
    with pytest.raises(StopWatchingError):
        await source.watch(clock, 2.5)
    assert seen == ["first", "second", "second"]
    assert source.policy.name == "third"
    assert set(clock.slept) == {2.5}


def test_a_touched_file_with_the_same_text_changes_nothing(path: Path) -> None:
    """A new modification time alone does not change the policy."""
    source = source_of(path)
    policy = source.policy
    os.utime(path, ns=(9, 9))
    assert not source.reload_if_touched()
    assert source.policy is policy


def test_changes_are_reported(path: Path) -> None:
    """A new policy is reported with its digest, an invalid file with its reason."""
    source, told = source_of(path), list[str]()
    source.on_change = lambda policy, digest: told.append(f"{policy.name} {len(digest)}")
    source.on_refused = told.append
    source.reload()
    write(path, GOOD.format(name="second"), at_ns=2)
    source.reload()
    write(path, "name = 1", at_ns=3)
    source.reload()
    assert told[0] == "second 64"
    assert told[1] == source.last_error
    assert len(told) == 2
