"""Reads the links and the anchors of Markdown pages, as a Git host shows them."""

import re
from collections import Counter

_FENCED = re.compile(r"^[ ]*(```|~~~).*?^[ ]*\1[ ]*$", re.DOTALL | re.MULTILINE)
_CODE = re.compile(r"`[^`\n]+`")
_INLINE = re.compile(r"\]\(\s*<?([^)\s>]+)>?(?:\s+\"[^\"]*\")?\s*\)")
_REFERENCE = re.compile(r"^\s{0,3}\[[^\]^]+\]:\s*<?([^\s>]+)", re.MULTILINE)
_ELSEWHERE = re.compile(r"[a-z][a-z0-9+.-]*:", re.IGNORECASE)
_HEADING = re.compile(r"^#{1,6}[ ]+(.+?)[ ]*#*$", re.MULTILINE)
_LINK = re.compile(r"!?\[([^\]]*)\]\([^)]*\)")
_NOT_IN_ANCHORS = re.compile(r"[^\w\- ]")


def links(markdown: str) -> list[str]:
    """Return the targets of the links to files and to anchors, without those to other sites."""
    prose = _CODE.sub("", _FENCED.sub("", markdown))
    targets = _INLINE.findall(prose) + _REFERENCE.findall(prose)
    return [target for target in targets if not _ELSEWHERE.match(target)]


def anchors(markdown: str) -> set[str]:
    """Return the anchors of the headings.

    An anchor is the heading in lower case with hyphens for spaces, without punctuation and markup.
    A repeated heading gets a number, from 1.
    """
    found: set[str] = set()
    seen: Counter[str] = Counter()
    for heading in _HEADING.findall(_FENCED.sub("", markdown)):
        text = _LINK.sub(r"\1", heading).replace("`", "").replace("*", "")
        name = _NOT_IN_ANCHORS.sub("", text.lower()).replace(" ", "-")
        found.add(f"{name}-{seen[name]}" if seen[name] else name)
        seen[name] += 1
    return found
