"""`python -m berth.testing.kernel_guest FOLDER`: make the kernel guest's files in a folder."""

import sys
from importlib.resources import files
from pathlib import Path

from berth.testing import kernel_guest
from berth.testing.kernel_guest.fetching import FetchError, make_kernel_guest


def main() -> None:
    """Write the kernel and its RAM disk, or exit with an error message."""
    try:
        (folder,) = map(Path, sys.argv[1:])
    except ValueError:
        sys.exit("usage: python -m berth.testing.kernel_guest FOLDER")
    init = files(kernel_guest).joinpath("init.sh").read_bytes()
    try:
        kernel, initrd = make_kernel_guest(folder / "packages", init)
    except FetchError as error:
        sys.exit(f"cannot make the kernel guest: {error}")
    for name, data in ((kernel_guest.KERNEL, kernel), (kernel_guest.INITRD, initrd)):
        # Files are renamed when complete, so no concurrent test run boots a truncated kernel.
        new = folder / f"{name}.new"
        new.write_bytes(data)
        new.replace(folder / name)


if __name__ == "__main__":
    main()
