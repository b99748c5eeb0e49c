"""The limit of open files of a process."""

import resource

from berth.adapters.system import raise_file_limit


def test_a_process_may_open_as_many_files_as_the_system_allows() -> None:
    """The soft limit becomes the hard one, since each connected agent is an open file."""
    before = resource.getrlimit(resource.RLIMIT_NOFILE)
    try:
        resource.setrlimit(resource.RLIMIT_NOFILE, (before[0] // 2, before[1]))
        assert raise_file_limit() == before[1]
        assert raise_file_limit() == before[1]
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, before)
