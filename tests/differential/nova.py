"""The peer that is the real Nova."""

import msgspec

from tests.differential.answers import Answer
from tests.differential.peer import ROOT, Peer
from tests.differential.wire import Json

PYTHON = ROOT / ".venv-nova" / "bin" / "python"
SCRIPT = ROOT / "bench" / "peers" / "nova" / "serve.py"
MISSING = "There is no .venv-nova to run the real Nova in; `make nova` makes it."


class FilterFacts(msgspec.Struct):
    """What Nova says of a filter beside its code."""

    once_per_request: bool
    run_on_rebuild: bool


class WeigherFacts(msgspec.Struct):
    """What Nova says of a weigher beside its code: fixed ends and the default multiplier."""

    floor: float | None
    ceiling: float | None
    multiplier: float


class Facts(msgspec.Struct):
    """What the peer says of itself when it starts."""

    version: str
    filters: dict[str, FilterFacts]
    weighers: dict[str, WeigherFacts]


class Nova(Peer):
    """One running peer; use it as a context.

    Attributes:
        facts: what it says of itself.
    """

    def __init__(self) -> None:
        # It walks through sets, and may raise on the way.
        super().__init__(PYTHON, SCRIPT, {"PYTHONHASHSEED": "0"})
        self.facts = msgspec.json.decode(self.hello, type=Facts)

    def ask(self, case: Json) -> Answer:
        """Return the peer's answer to a case.

        Raises:
            RuntimeError: the peer has ended; what it said is on standard error.
        """
        return msgspec.json.decode(self.tell(case), type=Answer, strict=False)
