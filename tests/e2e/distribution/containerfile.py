"""Executes a Containerfile without a container engine.

Each stage is a copy-on-write view of this machine with this Python in /usr/local, which stands in
for the base image. It may contain more than the image does, but shows that the steps succeed in
order, and that the result starts as its own user.
"""

import json
import os
import re
import shlex
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from fnmatch import fnmatch
from pathlib import Path

_MOUNT = """
set -e
root="$1/root"; python="$2"; user="$3"
layers="lowerdir=/,upperdir=$1/upper,workdir=$1/work"
mount -t overlay overlay -o "$layers" "$root"
mount --bind "$python" "$root/usr/local"
mount --rbind /dev "$root/dev"
mount -t proc proc "$root/proc"
shift 3
exec chroot --userspec="$user" "$root" "$@"
"""
_PATH = "/usr/local/bin:/usr/local/sbin:/usr/bin:/usr/sbin:/bin:/sbin"


def steps_of(text: str) -> list[tuple[str, str]]:
    """Return the instructions of a Containerfile: each with its arguments, on one line."""
    lines = [line for line in text.splitlines() if line.strip() and not line.startswith("#")]
    joined = re.sub(r"\\\n\s*", "", "\n".join(lines))
    return [(name, rest) for name, _, rest in (line.partition(" ") for line in joined.splitlines())]


def copy_context(context: Path, target: Path) -> None:
    """Copy a build context, except for what its `.dockerignore` leaves out."""
    ignored = (context / ".dockerignore").read_text("utf-8").split()

    def is_ignored(path: Path) -> bool:
        name = str(path.relative_to(context))
        return any(
            fnmatch(path.name if one.startswith("**/") else name, one.removeprefix("**/"))
            for one in ignored
        )

    def left_out(folder: str, names: Sequence[str]) -> list[str]:
        return [name for name in names if is_ignored(Path(folder) / name)]

    shutil.copytree(context, target, symlinks=True, ignore=left_out)


@dataclass
class Stage:
    """The file system of a stage, and the instructions that apply to later processes."""

    folder: Path
    user: str = "root"
    work: str = "/"
    entrypoint: list[str] = field(default_factory=list[str])

    def __post_init__(self) -> None:
        for name in ("upper", "work", "root"):
            (self.folder / name).mkdir(parents=True)

    def within(self, words: Sequence[str]) -> list[str]:
        """Return the command that runs `words` in this file system, by the user of the stage."""
        script = ["sh", "-c", _MOUNT, "sh", str(self.folder), sys.base_prefix, self.user]
        within = ["sh", "-c", f'cd {shlex.quote(self.work)} && exec "$@"', "sh"]
        return ["unshare", "--mount", "--", *script, *within, *words]

    def run(self, words: Sequence[str], environment: Mapping[str, str]) -> str:
        """Run a command, which must succeed, and return its output."""
        done = subprocess.run(
            self.within(words), env=environment, capture_output=True, text=True, check=False
        )
        assert done.returncode == 0, f"{shlex.join(words)}\n{done.stdout}{done.stderr}"
        return done.stdout

    def path(self, absolute: str) -> Path:
        """Return where a file that a step has created is stored on this machine."""
        return self.folder / "upper" / absolute.lstrip("/")


def environ() -> dict[str, str]:
    """Return the variables of the processes in a stage."""
    kept = {k: v for k, v in os.environ.items() if not k.startswith(("BERTH_", "PYTHON", "VIRT"))}
    # A shared library of this Python may be found by a path that the user of the stage cannot read.
    return {**kept, "PATH": _PATH, "LD_LIBRARY_PATH": "/usr/local/lib"}


@contextmanager
def built(containerfile: Path, context: Path) -> Iterator[Stage]:
    """Execute all steps, and return the last stage.

    Raises:
        AssertionError: a step failed; its output is in the message.
        NotImplementedError: an instruction is not supported.
    """
    environment = environ()
    stages: dict[str, Stage] = {}
    stage: Stage | None = None
    with ExitStack() as stack:
        base = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="berth-image-")))
        for name, rest in steps_of(containerfile.read_text("utf-8")):
            if name == "FROM":
                alias = rest.partition(" AS ")[2] or str(len(stages))
                stage = stages[alias] = Stage(base / alias)
                continue
            assert stage is not None
            if name == "COPY":
                _copy(rest, context, stages, stage)
            elif name == "RUN":
                stage.run(["sh", "-c", rest], environment)
            elif name == "USER":
                stage.user = rest
            elif name == "WORKDIR":
                stage.work = rest
            elif name == "ENTRYPOINT":
                stage.entrypoint = json.loads(rest)
            else:
                raise NotImplementedError(name)
        assert stage is not None
        yield stage


def _copy(rest: str, context: Path, stages: Mapping[str, Stage], stage: Stage) -> None:
    words = rest.split()
    target = stage.path(words[-1])
    target.parent.mkdir(parents=True, exist_ok=True)
    if words[0].startswith("--from="):
        _, source, _ = words
        origin = stages[words[0].removeprefix("--from=")].path(source)
        shutil.copytree(origin, target, symlinks=True)
    else:
        assert words[0] == "."
        copy_context(context, target)
