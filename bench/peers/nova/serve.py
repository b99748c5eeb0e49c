"""Answer cases with Nova's own filters and weighers: JSON lines in, JSON lines out.

Run it with the Python of a virtualenv that holds `../nova-requirements.lock`. The first line out
has the version and the properties of each rule; then every line in is a case
(`tests/differential/wire.py` writes them) and every line out its answer, until the input ends.
Nova's own log goes to stderr.

Exit codes: 0 the input has ended, 3 Nova cannot be imported or its Pike filters are missing.
"""

from __future__ import annotations

import contextlib
import importlib.metadata
import json
import logging
import sys
import warnings
from pathlib import Path

# At the end of the path, because this folder has a package `nova` that must not hide Nova.
sys.path.append(str(Path(__file__).resolve().parents[1]))

from judging import Judge
from nova_peer import EXIT_NOVA_MISSING, EXIT_OK, NovaMissingError, build_scheduler, load_nova
from pike import PikeMissingError


def main() -> int:
    """Answer cases until the input ends, and return the exit code."""
    logging.basicConfig(stream=sys.stderr, level=logging.CRITICAL)
    warnings.simplefilter("ignore")  # Nova would warn about each name that is not a uuid
    out = sys.stdout
    with contextlib.redirect_stdout(sys.stderr):  # stdout carries the answers and nothing else
        try:
            nova = load_nova()
        except NovaMissingError as error:
            sys.stderr.write(f"{error}\n")
            return EXIT_NOVA_MISSING
        nova.conf.CONF.clear_override("service_down_time")
        try:
            judge = Judge(nova, build_scheduler(nova))
        except PikeMissingError as error:
            sys.stderr.write(f"{error}\n")
            return EXIT_NOVA_MISSING
        version = importlib.metadata.version("nova")
        print(json.dumps({"version": version, **judge.describe()}), file=out, flush=True)
        for line in sys.stdin:
            print(json.dumps(judge.answer(json.loads(line))), file=out, flush=True)
    return EXIT_OK


if __name__ == "__main__":
    sys.exit(main())
