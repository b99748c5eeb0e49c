"""Queries for allocation candidates: groups, global parameters, and contradictions."""

import pytest

from berth.api.placement.candidate_query import candidate_query
from berth.api.placement.errors import Code, PlacementError
from berth.scheduling.candidates.query import CandidateGroup, CandidateQuery

A = "11111111-1111-4111-8111-111111111111"

Query = list[tuple[str, str]]


def test_one_group_is_all_that_old_clients_ask() -> None:
    """A query has one group without suffix, and is aware of trees from 1.29 on."""
    query = [("resources", "VCPU:1,MEMORY_MB:512"), ("limit", "5"), ("limit", "9")]
    group = CandidateGroup(amounts={"VCPU": 1, "MEMORY_MB": 512})
    assert candidate_query(query, 16) == CandidateQuery((group,), limit=5, is_nested_aware=False)
    assert candidate_query(query, 29) == CandidateQuery((group,), limit=5)


def test_groups_are_in_the_order_in_which_they_are_named() -> None:
    """Each key belongs to the group of its suffix, and the last of several resources counts."""
    query = [
        ("required_B", "T,!U"),
        ("resources", "VCPU:1"),
        ("resources1", "VCPU:7"),
        ("resources1", "VCPU:2"),
        ("member_of1", A),
        ("member_of1", f"!in:{A}"),
        ("in_tree1", f" {A} "),
        ("group_policy", "isolate"),
        ("group_policy", "none"),
        ("same_subtree", "_B, 1"),
        ("root_required", "R,!S"),
    ]
    assert candidate_query(query, 36) == CandidateQuery(
        groups=(
            CandidateGroup("_B", required=(frozenset("T"),), forbidden=frozenset("U")),
            CandidateGroup("", {"VCPU": 1}),
            CandidateGroup(
                "1",
                {"VCPU": 2},
                member_of=(frozenset({A}),),
                outside_of=frozenset({A}),
                in_tree=A,
            ),
        ),
        isolates=True,
        root_required=frozenset("R"),
        root_forbidden=frozenset("S"),
        same_subtree=(frozenset({"_B", "1"}),),
    )


@pytest.mark.parametrize(
    ("query", "minor", "problem", "code"),
    [
        (
            [("resources1", "A:1"), ("resources2", "A:1")],
            25,
            'The "group_policy" parameter is required when specifying more than one ',
            Code.UNDEFINED,
        ),
        (
            [("resources1", "A:1"), ("required_X", "T"), ("same_subtree", "_X")],
            36,
            'The "group_policy" parameter is required when specifying more than one ',
            Code.UNDEFINED,
        ),
        (
            [("required", "T")],
            25,
            (
                "All traits parameters must be associated with resources.  Found the following "
                "orphaned traits keys: required"
            ),
            Code.UNDEFINED,
        ),
        (
            [("resources", "A:1"), ("member_of1", A)],
            25,
            (
                "All member_of parameters must be associated with resources. Found the following "
                "orphaned member_of keys: member_of1"
            ),
            Code.UNDEFINED,
        ),
        (
            [("resources", "A:1"), ("in_tree1", A)],
            31,
            "All request groups must specify resources.",
            Code.UNDEFINED,
        ),
        ([], 25, "At least one request group (`resources` or `resources{$S}`) ", Code.UNDEFINED),
        ([], 36, "There must be at least one resources or ", Code.QUERY_MISSING_VALUE),
        (
            [("required_X", "T"), ("same_subtree", "_X")],
            36,
            "There must be at ",
            Code.QUERY_MISSING_VALUE,
        ),
        (
            [("resources", "A:1"), ("required_X", "T")],
            36,
            (
                "Resourceless suffixed group request should be specified in `same_subtree` query "
                "param: bad group(s) - ['_X']."
            ),
            Code.QUERY_BAD_VALUE,
        ),
        (
            [("resources1", "A:1"), ("required", "T"), ("same_subtree", "1")],
            36,
            (
                "Resourceless suffixed group request should be specified in `same_subtree` query "
                "param: bad group(s) - ['']."
            ),
            Code.QUERY_BAD_VALUE,
        ),
        (
            [("resources1", "A:1"), ("same_subtree", "1,2")],
            36,
            "Real suffixes should be specified in `same_subtree`: ['2'] not found in ['1'].",
            Code.QUERY_BAD_VALUE,
        ),
        (
            [("resources1", "A:1"), ("same_subtree", "1,")],
            36,
            "Empty string (unsuffixed group) can not be specified in `same_subtree` ",
            Code.QUERY_BAD_VALUE,
        ),
        (
            [("resources", "A:1"), ("root_required", "T"), ("root_required", "T")],
            35,
            "Query parameter 'root_required' may be specified only once.",
            Code.QUERY_DUPLICATE_KEY,
        ),
        (
            [("resources", "A:1"), ("root_required", "T,!T,S,!S")],
            35,
            "Conflicting required and forbidden traits found in root_required: S, T",
            Code.QUERY_BAD_VALUE,
        ),
        (
            [("resources", "A:1"), ("root_required", "in:T")],
            39,
            "Invalid query string parameters: The format 'in:HW_CPU_X86_VMX,CUSTOM_MAGIC' only ",
            Code.UNDEFINED,
        ),
        (
            [
                ("resources", "A:1"),
                ("required", "T,!T"),
                ("resources1", "A:1"),
                ("required1", "in:S,U"),
                ("required1", "!S,!U"),
            ],
            39,
            (
                "Conflicting required and forbidden traits found in the following traits keys: "
                "required1: (S, U), required: (T)"
            ),
            Code.UNDEFINED,
        ),
        (
            [("resources", "A:1"), ("in_tree", "house")],
            31,
            (
                "Invalid query string parameters: Expected 'in_tree' parameter to be a format of "
                "uuid. Got: house"
            ),
            Code.UNDEFINED,
        ),
    ],
)
def test_what_does_not_go_together_is_refused(
    query: Query, minor: int, problem: str, code: Code
) -> None:
    """A contradictory query gets 400 with Placement's message and code."""
    with pytest.raises(PlacementError) as raised:
        candidate_query(query, minor)
    assert raised.value.status == 400
    assert raised.value.message.startswith(problem)
    assert raised.value.code == code


def test_of_several_that_are_wrong_the_first_is_told() -> None:
    """Of several invalid parameters, the first in the query is reported."""
    query = [("resources", "VCPU:1"), ("required", "A,"), ("in_tree", "x"), ("member_of", "y")]
    for first, text in ((1, "Got an empty trait"), (2, "'in_tree'"), (3, "'member_of'")):
        rest = [item for place, item in enumerate(query) if place not in (0, first)]
        with pytest.raises(PlacementError, match=text):
            candidate_query([query[first], query[0], *rest], 39)
    with pytest.raises(PlacementError, match="Got an empty trait"):
        candidate_query([("required", "B"), query[2], query[0], query[1]], 39)
