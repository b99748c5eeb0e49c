"""Prepares and serves a real Keystone on loopback; the interpreter of `.venv-keystone` runs this.

The arguments are a folder, a port and the password of the user `admin`. The imports of Keystone
take seconds, so each command of `keystone-manage` and each server is a fork of this process. A line
of standard input starts or stops the server (`start`, `stop`); a line of standard output confirms
that it was done.
"""

import os
import signal
import socketserver
import sys
import warnings
from pathlib import Path
from typing import Any, NoReturn
from wsgiref.simple_server import WSGIRequestHandler, WSGIServer, make_server

warnings.simplefilter("ignore")

from keystone.cmd import cli  # type: ignore[import-not-found] # noqa: E402 - .venv-keystone has it
from keystone.server.flask import core  # type: ignore[import-not-found] # noqa: E402

_CONF = """\
[DEFAULT]
log_file = {folder}/keystone.log
[database]
connection = sqlite:///{folder}/keystone.sqlite
[fernet_tokens]
key_repository = {folder}/fernet-keys
[credential]
key_repository = {folder}/credential-keys
# As in a deployment with memcached; without a cache each validation takes 0.2 s of CPU time.
[cache]
enabled = true
backend = dogpile.cache.memory
[identity]
# The least number of rounds of bcrypt: the tests' passwords need no protection.
password_hash_rounds = 4
"""


class _Server(socketserver.ThreadingMixIn, WSGIServer):
    """Serves each request in a thread."""

    daemon_threads = True
    request_queue_size = 64


class _Quiet(WSGIRequestHandler):
    """Logs nothing."""

    def log_message(self, *_: object) -> None:
        """Log nothing."""


def _manage(conf: Path, *words: str) -> None:
    """Run `keystone-manage` with the words in a fork."""
    process = os.fork()
    if process == 0:
        code = 1
        try:
            cli.main(argv=["keystone-manage", "--config-file", str(conf), *words])
            code = 0
        finally:
            sys.stderr.flush()
            os._exit(code)
    _, status = os.waitpid(process, 0)
    if status:
        sys.exit(f"keystone-manage {words[0]} failed")


def prepare(folder: Path, port: int, password: str) -> Path:
    """Write the configuration, the keys and the database of a Keystone; return the first."""
    conf = folder / "keystone.conf"
    conf.write_text(_CONF.format(folder=folder), "utf-8")
    for name in ("fernet-keys", "credential-keys"):
        (folder / name).mkdir(mode=0o700)
    owner = ("--keystone-user", str(os.getuid()), "--keystone-group", str(os.getgid()))
    _manage(conf, "db_sync")
    _manage(conf, "fernet_setup", *owner)
    _manage(conf, "credential_setup", *owner)
    url = f"http://127.0.0.1:{port}/v3"
    words = ["--bootstrap-password", password, "--bootstrap-region-id", "RegionOne"]
    for interface in ("admin", "internal", "public"):
        words += [f"--bootstrap-{interface}-url", url]
    _manage(conf, "bootstrap", *words)
    return conf


def _serve(conf: Path, port: int, ready: int) -> NoReturn:
    del sys.argv[1:]  # Keystone would parse them
    app: Any = core.initialize_application("public", config_files=[str(conf)])
    with make_server("127.0.0.1", port, app, _Server, _Quiet) as server:
        os.write(ready, b"!")
        server.serve_forever()
    os._exit(0)


def start(conf: Path, port: int) -> int:
    """Serve in a fork; return its process id when it listens."""
    reading, writing = os.pipe()
    process = os.fork()
    if process == 0:
        os.close(reading)
        _serve(conf, port, writing)
    os.close(writing)
    if os.read(reading, 1) != b"!":
        sys.exit("Keystone did not start; see its log")
    os.close(reading)
    return process


def main() -> None:
    """Prepare Keystone, and carry out the commands of standard input until it ends."""
    folder, port = Path(sys.argv[1]), int(sys.argv[2])
    conf = prepare(folder, port, sys.argv[3])
    process = 0
    for line in sys.stdin:
        if line.strip() == "start":
            process = start(conf, port)
        elif process:
            os.kill(process, signal.SIGKILL)
            os.waitpid(process, 0)
            process = 0
        print(line.strip(), flush=True)  # noqa: T201 - the answer
    if process:
        os.kill(process, signal.SIGKILL)


if __name__ == "__main__":
    main()
