"""The Accept header: how well a client likes a media type."""


def liking(accept: str | None, media_type: str) -> float:
    """Return the quality that a client gives a media type, 0 when it does not want it.

    Without the header, or with one that names no type, everything is liked. The most specific range
    counts; parameters other than `q` are not looked at.

    Args:
        accept: the header, if there is one.
        media_type: in lower case.
    """
    if accept is None or "/" not in accept:
        return 1.0
    ranges = {media_type: 3, f"{media_type.partition('/')[0]}/*": 2, "*/*": 1}
    found = (0, 0.0)
    for item in accept.lower().split(","):
        name, *parameters = (part.strip() for part in item.split(";"))
        rank = ranges.get(name, 0)
        if rank > found[0]:
            found = (rank, _quality(parameters))
    return found[1]


def _quality(parameters: list[str]) -> float:
    for parameter in parameters:
        key, _, value = parameter.partition("=")
        if key.strip() == "q":
            try:
                return min(max(float(value), 0.0), 1.0)
            except ValueError:
                return 1.0
    return 1.0
