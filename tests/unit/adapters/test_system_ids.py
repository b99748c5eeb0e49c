"""Random identifiers: their form and their uniqueness."""

from uuid import RFC_4122, UUID

from berth.adapters.system import RandomIds


def test_uuids_are_random_ones_and_differ() -> None:
    """1,000 uuids are all different, of version 4, in lower case and with dashes."""
    ids = RandomIds()
    drawn = [ids.uuid() for _ in range(1000)]
    assert len(set(drawn)) == len(drawn)
    for text in drawn:
        found = UUID(text)
        assert (found.version, found.variant, str(found)) == (4, RFC_4122, text)


def test_every_digit_that_may_vary_does() -> None:
    """Every digit takes all 16 values, except the version (one) and the variant (four)."""
    ids = RandomIds()
    columns = list(zip(*(ids.uuid().replace("-", "") for _ in range(1000)), strict=True))
    assert {"".join(sorted(set(column))) for column in columns} == {
        "0123456789abcdef",
        "4",
        "89ab",
    }


def test_request_ids_are_named_so() -> None:
    """A request id is the prefix `req-` and a random uuid."""
    kind, _, rest = RandomIds().request_id().partition("-")
    assert kind == "req"
    assert UUID(rest).version == 4
