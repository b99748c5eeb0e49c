"""Query parameters of the audit."""

from typing import Annotated

from berth.api.codec import Meta, Model
from berth.api.values import COUNT_MAX
from berth.domain.ledger.discrepancy import AuditAges

Age = Annotated[float, Meta(ge=0, le=COUNT_MAX)]
"""An age in seconds."""

_AGES = AuditAges()


class AuditQuery(Model):
    """The host to audit (by default all hosts), and the ages from which to report."""

    host: Annotated[str, Meta(min_length=1, max_length=255)] | None = None
    grace_s: Age = _AGES.grace_s
    task_s: Age = _AGES.task_s
    request_s: Age = _AGES.request_s
