"""Tags of servers."""

from typing import Annotated

from berth.api.codec import Meta, Model, View
from berth.api.compute.schemas.servers import Tag


class TagsBody(Model):
    """All tags of a server."""

    tags: Annotated[list[Tag], Meta(max_length=50)]


class TagsAnswer(View):
    """All tags of a server."""

    tags: list[str]
