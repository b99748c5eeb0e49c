"""The peer that is the real Nova."""

import msgspec

from tests.differential.answers import Answer
from tests.differential.peer import ROOT, Peer
from tests.differential.wire import Json

PYTHON = ROOT / ".venv-nova" / "bin" / "python"
SCRIPT = ROOT / "bench" / "peers" / "nova" / "serve.py"
MISSING = "There is no .venv-nova to run the real Nova in; `make nova` makes it."


class FilterFacts(msgspec.Struct):
    """Nova's flags of a filter."""

    once_per_request: bool
    run_on_rebuild: bool


class WeigherFacts(msgspec.Struct):
    """The fixed ends and default multiplier of a weigher in Nova."""

    floor: float | None
    ceiling: float | None
    multiplier: float


class Facts(msgspec.Struct):
    """The facts that the peer reports when it starts."""

    version: str
    filters: dict[str, FilterFacts]
    weighers: dict[str, WeigherFacts]


class Nova(Peer):
    """A running peer; use it as a context.

    Attributes:
        facts: the facts that it reported.
    """

    def __init__(self) -> None:
        # Nova iterates over sets and may raise midway, so their order must be fixed.
        super().__init__(PYTHON, SCRIPT, {"PYTHONHASHSEED": "0"})
        self.facts = msgspec.json.decode(self.hello, type=Facts)

    def ask(self, case: Json) -> Answer:
        """Return the peer's answer to a case.

        Raises:
            RuntimeError: the peer has ended; its output is on standard error.
        """
        return msgspec.json.decode(self.tell(case), type=Answer, strict=False)
