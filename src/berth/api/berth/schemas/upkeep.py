"""What operators do to hosts: their allocation ratios, and writing them off."""

from typing import Annotated

from berth.api.codec import Meta, Model, View
from berth.domain.inventory.resources import RATIO_MAX

ClassName = Annotated[str, Meta(min_length=1, max_length=255)]


class RatiosBody(Model):
    """Allocation ratios by resource class; 0 unsets one, and those that are left out stay."""

    ratios: Annotated[
        dict[ClassName, Annotated[float, Meta(ge=0, le=RATIO_MAX)]], Meta(min_length=1)
    ]


class WrittenOffMove(View):
    """A move that has left something on the host, and what it holds there by class."""

    uuid: str
    id: int
    instance_uuid: str
    kind: str
    stage: str
    held: dict[str, int]


class WriteOffAnswer(View):
    """What writing off a host ends and frees, or has.

    `instances` are those that are on the host; they stay, and so do the moves in `waiting`.
    """

    host: str
    is_done: bool
    moves: list[WrittenOffMove]
    freed: dict[str, int]
    instances: list[str]
    waiting: list[WrittenOffMove]
