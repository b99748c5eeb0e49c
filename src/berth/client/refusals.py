"""Refusals: why no host was found for a request, and what would have helped."""

from berth.client.errors import ClientError
from berth.client.requests import Value


class FilterCount(Value, frozen=True):
    """One filter: the numbers of hosts before and after it, and examples of removed hosts."""

    name: str
    before: int
    after: int
    removed_examples: tuple[str, ...] = ()


class Relaxation(Value, frozen=True):
    """One change to the request that would have let it fit, or a pair of changes (`parts`).

    `hosts` is the number of hosts that would then pass, and `change` the amount to add to the
    request in the unit of `subject`; None if the change is not an amount.
    """

    filter: str
    subject: str
    text: str
    hosts: int
    change: int | None = None
    examples: tuple[str, ...] = ()
    parts: "tuple[Relaxation, ...]" = ()
    uncounted: str = ""


class Refusal(Value, frozen=True):
    """The reasons why a request has no plan; `code` is for programs, `message` for people.

    `placed` of the `asked` instances found a host. `summary` is the message without reasons, and
    `hints` are the changes that would help, without numbers of hosts.
    """

    code: str
    message: str
    placed: int
    asked: int
    hosts_total: int
    filters: tuple[FilterCount, ...] = ()
    relaxations: tuple[Relaxation, ...] = ()
    summary: str = ""
    hints: str = ""


class NoValidHostError(ClientError):
    """A decision refused the request.

    Args:
        request_id: the id of the decision.
        refusal: the reasons: filters with counts, and the changes that would have helped.
    """

    def __init__(self, request_id: str, refusal: Refusal) -> None:
        super().__init__(refusal.message, request_id=request_id)
        self.refusal = refusal
