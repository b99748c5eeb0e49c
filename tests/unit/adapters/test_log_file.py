"""Log files that other programs rotate, that rotate themselves, and that cannot be written."""

from pathlib import Path

import pytest

from berth.adapters.log_file import LogFile


class Ticks:
    """A monotonic clock that a test moves."""

    def __init__(self) -> None:
        self.now_ns = 0

    def __call__(self) -> int:
        """Return the time in nanoseconds."""
        return self.now_ns

    def pass_a_second(self) -> None:
        """Move on by one second, after which a file checks its path again."""
        self.now_ns += 1_000_000_000


def test_a_moved_file_is_opened_again(tmp_path: Path) -> None:
    """After logrotate has moved the file, lines go to a new file of the same name."""
    ticks, path = Ticks(), tmp_path / "berth.log"
    file = LogFile(path, ticks)
    file.write("one")
    path.rename(tmp_path / "berth.log.1")
    file.write("two")
    ticks.pass_a_second()
    file.write("three")
    assert (tmp_path / "berth.log.1").read_text() == "one\ntwo\n"
    assert path.read_text() == "three\n"


def test_a_large_file_rotates_itself(tmp_path: Path) -> None:
    """At the size, the file is renamed, older files move up, and the oldest is dropped."""
    ticks, path = Ticks(), tmp_path / "berth.log"
    file = LogFile(path, ticks, rotate_bytes=4, kept=2)
    for word in ("one", "two", "three", "four"):
        ticks.pass_a_second()
        file.write(word)
    found = {one.name: one.read_text() for one in tmp_path.iterdir()}
    assert found == {"berth.log": "four\n", "berth.log.1": "three\n", "berth.log.2": "two\n"}


def test_processes_rotate_a_shared_file_once(tmp_path: Path) -> None:
    """When two processes reach the size, the second one only opens the new file."""
    ticks, path = Ticks(), tmp_path / "berth.log"
    first, second = (LogFile(path, ticks, rotate_bytes=4) for _ in range(2))
    first.write("one")
    ticks.pass_a_second()
    first.write("two")
    second.write("three")
    assert path.read_text() == "two\nthree\n"
    assert (tmp_path / "berth.log.1").read_text() == "one\n"
    assert not (tmp_path / "berth.log.2").exists()


def test_without_kept_files_the_old_one_is_removed(tmp_path: Path) -> None:
    """With `kept` 0, a rotated file is removed."""
    ticks, path = Ticks(), tmp_path / "berth.log"
    file = LogFile(path, ticks, rotate_bytes=1, kept=0)
    file.write("one")
    ticks.pass_a_second()
    file.write("two")
    assert [(one.name, one.read_text()) for one in tmp_path.iterdir()] == [("berth.log", "two\n")]


def test_lines_that_cannot_be_written_are_counted() -> None:
    """A full disk stops no process; the lost lines are counted."""
    full = Path("/dev/full")
    if not full.exists():
        pytest.skip("this system has no /dev/full")
    file = LogFile(full, Ticks())
    file.write("one")
    file.write("two")
    assert file.lost == 2


def test_other_users_cannot_read_the_file(tmp_path: Path) -> None:
    """A new file is not readable by others, and unencodable characters do not fail."""
    file = LogFile(tmp_path / "berth.log", Ticks())
    file.write("a\udc80b")
    assert (tmp_path / "berth.log").read_text() == "a\\udc80b\n"
    assert (tmp_path / "berth.log").stat().st_mode & 0o007 == 0
    file.close()


@pytest.mark.timeout(10)
def test_a_rotation_that_fails_loses_no_line_and_blocks_no_process(tmp_path: Path) -> None:
    """Lines go on into the open file, of this process and of others that share it."""
    ticks, path = Ticks(), tmp_path / "berth.log"
    (tmp_path / "berth.log.1").mkdir()
    first, second = (LogFile(path, ticks, rotate_bytes=4, kept=1) for _ in range(2))
    for word in ("one", "two", "three"):
        first.write(word)
        second.write(word.upper())
        ticks.pass_a_second()
    assert path.read_text() == "one\nONE\ntwo\nTWO\nthree\nTHREE\n"
    assert (first.lost, second.lost) == (0, 0)
    (tmp_path / "berth.log.1").rmdir()
    first.write("four")
    assert path.read_text() == "four\n"


def test_a_folder_that_is_gone_costs_no_line(tmp_path: Path) -> None:
    """Without its folder a file cannot be opened again, and the open one takes the lines."""
    ticks, folder = Ticks(), tmp_path / "log"
    folder.mkdir()
    file = LogFile(folder / "berth.log", ticks)
    folder.rename(tmp_path / "moved")
    for word in ("one", "two"):
        ticks.pass_a_second()
        file.write(word)
    assert (tmp_path / "moved" / "berth.log").read_text() == "one\ntwo\n"
    assert file.lost == 0
