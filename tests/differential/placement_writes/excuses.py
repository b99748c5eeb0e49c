"""The wanted differences from Placement, as data: their conditions and reasons."""

from collections.abc import Sequence

from tests.differential.placement.comparing import Difference
from tests.differential.placement.excuses import Excuse
from tests.differential.placement_writes import conditions
from tests.differential.placement_writes.comparing import Exchange, differences


def excused_by(exchange: Exchange, one: Difference) -> str | None:
    """Return the name of the excuse for a difference, None without an excuse."""
    return next(
        (each.name for each in EXCUSES if one.what in each.whats and each.holds(exchange, one)),
        None,
    )


def unexcused(exchange: Exchange) -> list[Difference]:
    """Return the differences without an excuse."""
    return [one for one in differences(exchange) if excused_by(exchange, one) is None]


EXCUSES: Sequence[Excuse[Exchange]] = (
    Excuse(
        "errors by version",
        "Placement tells caches that an answer depends on the microversion unless it is an error.",
        frozenset({"headers"}),
        conditions.is_vary,
    ),
    Excuse(
        "nothing was changed",
        "Placement tells no time of inventories when there are none; Berth tells the provider's.",
        frozenset({"headers"}),
        conditions.is_empty,
    ),
    Excuse(
        "form of errors",
        "To clients that take anything, or no form that it knows, Placement tells errors in HTML "
        "or as text; Berth does so only to those who like HTML better than JSON. HEAD is told "
        "nothing but a form.",
        frozenset({"text", "body", "headers", "code"}),
        conditions.is_form,
    ),
    Excuse(
        "who is unknown",
        "Placement leaves it to a middleware to say what is wrong with a token.",
        frozenset({"text", "headers"}),
        conditions.is_stranger,
    ),
    Excuse(
        "order of names",
        "Placement tells traits, classes and providers as it walks through sets of them.",
        frozenset({"text"}),
        conditions.is_order,
    ),
    Excuse(
        "startswith by LIKE",
        "Placement leaves it to the database's LIKE what a name begins with, to which `_` and `%` "
        "are any characters, and with most databases the case makes no difference.",
        frozenset({"body"}),
        conditions.is_like,
    ),
    Excuse(
        "time of a change",
        "Placement tells when a provider was changed the time before, if ever.",
        frozenset({"headers"}),
        conditions.is_unsaid,
    ),
    Excuse(
        "malformed version",
        "Placement tells what is wrong with a version in the words of its own code.",
        frozenset({"text"}),
        conditions.is_number,
    ),
    Excuse(
        "names that are not ASCII",
        "Placement takes each byte of a path for a character.",
        frozenset({"text"}),
        conditions.is_latin,
    ),
    Excuse(
        "inventory that is there",
        "Placement tells an SQL statement.",
        frozenset({"text"}),
        conditions.is_there,
    ),
    Excuse(
        "uuids in any form",
        "Placement finds a consumer by any form of its uuid in PUT, and by the usual one in GET "
        "and DELETE.",
        frozenset({"status", "body", "headers"}),
        conditions.is_same_uuid,
    ),
    Excuse(
        "renamed class",
        "Placement gives a class another name while something of it is used.",
        frozenset({"status"}),
        conditions.is_renamed,
    ),
    Excuse(
        "hidden names",
        "Placement looks at one filter after the other, and ends when nothing is left; Berth looks "
        "at all names first.",
        frozenset({"status"}),
        conditions.hides_names,
    ),
    Excuse(
        "one of several traits",
        "Of several unknown traits Placement tells the one that its walk through a set comes to "
        "first; Berth tells the first by the alphabet.",
        frozenset({"text"}),
        conditions.names_another,
    ),
    Excuse(
        "case of media types",
        "To Placement APPLICATION/JSON is another type than application/json.",
        frozenset({"status"}),
        conditions.is_case,
    ),
    Excuse(
        "U+0000",
        "Placement takes a character that not every database can store.",
        frozenset({"status", "text"}),
        conditions.is_nul,
    ),
    Excuse(
        "classes of what is freed",
        "Placement names the classes that consumers lose, too, when a provider has nothing of "
        "those that are asked for.",
        frozenset({"text"}),
        conditions.is_freed,
    ),
    Excuse(
        "nonsense under no name",
        "Placement does not look at what a key under `inventories` holds that is no name of a "
        "class.",
        frozenset({"status", "text", "code"}),
        conditions.is_hidden,
    ),
    Excuse(
        "64 bits",
        "Placement finds out after all else that it cannot store a number, or takes it for too "
        "much.",
        frozenset({"status", "text", "code"}),
        conditions.is_long,
    ),
    Excuse(
        "NaN",
        "To Placement NaN and Infinity are JSON.",
        frozenset({"status", "text", "code"}),
        conditions.is_nan,
    ),
    Excuse(
        "fails on nonsense",
        "Placement takes some bodies that make no sense, and fails on them.",
        frozenset({"status"}),
        conditions.fails,
    ),
    Excuse(
        "classes of a reshape",
        "Placement looks at consumers, and at the providers of allocations, before it looks at the "
        "classes of inventories.",
        frozenset({"status", "text", "code"}),
        conditions.is_earlier,
    ),
)
