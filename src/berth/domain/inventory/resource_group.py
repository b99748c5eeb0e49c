"""Resource groups of a flavor: amounts and traits that one provider must provide together.

Source: nova-behaviour.md 2.8, 6.4.

`resources[S]:CLASS=n` and `trait[S]:NAME=required|forbidden` belong to the group with the suffix S.
Without a suffix they belong to the unsuffixed group, which several providers of a host's tree may
satisfy, one per class.
"""

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field

from berth.domain.errors import InvalidInputError
from berth.domain.inventory.resources import AMOUNT_MAX, check_name

GROUPS_MAX = 64
"""Maximum number of suffixed groups of one flavor."""

GROUP_POLICY = "group_policy"
"""Extra spec that says whether suffixed groups may share providers."""

# Nova's grammar: a suffix has up to 64 letters, digits, hyphens and underscores.
_KEY = re.compile(r"(?s)(resources|trait)([A-Za-z0-9_-]{0,64}):(.+)")
_POLICIES = ("none", "isolate")


@dataclass(frozen=True, slots=True)
class ResourceGroup:
    """Amounts and traits that one provider must provide together; `amounts` contain no zeros."""

    suffix: str
    amounts: Mapping[str, int]
    traits_required: frozenset[str] = frozenset()
    traits_forbidden: frozenset[str] = frozenset()


@dataclass(slots=True)
class ResourceGroupBuilder:
    """A mutable resource group, filled while the extra specs are read one by one."""

    suffix: str = ""
    amounts: dict[str, int] = field(default_factory=dict[str, int])
    required: set[str] = field(default_factory=set[str])
    forbidden: set[str] = field(default_factory=set[str])

    def add_trait(self, key: str, name: str, value: str) -> None:
        """Add a required or forbidden trait.

        Args:
            key: the extra spec, for errors.
            name: the trait.
            value: `required` or `forbidden`.

        Raises:
            InvalidInputError: the value or the name is invalid.
        """
        if value not in {"required", "forbidden"}:
            raise InvalidInputError(key, f"{value[:80]!r} must be 'required' or 'forbidden'")
        (self.required if value == "required" else self.forbidden).add(check_name(name, key))

    def group(self) -> ResourceGroup:
        """Return the finished resource group, without classes of amount 0.

        Raises:
            InvalidInputError: a trait is both required and forbidden.
        """
        both = self.required & self.forbidden
        if both:
            key = f"trait{self.suffix}:{min(both)}"
            raise InvalidInputError(key, "is both required and forbidden; remove one")
        return ResourceGroup(
            self.suffix,
            # An extra spec with the amount 0 removes the flavor's own amount of the class.
            {name: amount for name, amount in self.amounts.items() if amount},
            frozenset(self.required),
            frozenset(self.forbidden),
        )


def read_groups(
    specs: Mapping[str, str], unsuffixed: ResourceGroupBuilder
) -> tuple[ResourceGroup, ...]:
    """Return the suffixed groups of a flavor's extra specs; unrelated keys are ignored.

    Args:
        specs: the extra specs.
        unsuffixed: receives the amounts and traits without a suffix.

    Returns:
        The suffixed groups, sorted by suffix, without those that request nothing.

    Raises:
        InvalidInputError: a name or a value is invalid, there are too many groups, or a suffixed
            group has only traits or both requires and forbids a trait.
    """
    drafts = {"": unsuffixed}
    for key, value in specs.items():
        found = _KEY.fullmatch(key)
        if found is None:
            continue
        kind, suffix, name = found.groups()
        draft = drafts.setdefault(suffix, ResourceGroupBuilder(suffix))
        if kind == "trait":
            draft.add_trait(key, name, value)
        else:
            draft.amounts[check_name(name, key)] = whole_number(value, key)
    if len(drafts) - 1 > GROUPS_MAX:
        raise InvalidInputError(
            "extra_specs", f"has more than {GROUPS_MAX} resource groups; use fewer"
        )
    return tuple(_suffixed(drafts))


def _suffixed(drafts: Mapping[str, ResourceGroupBuilder]) -> Iterator[ResourceGroup]:
    for suffix in sorted(drafts.keys() - {""}):
        group = drafts[suffix].group()
        if group.amounts:
            yield group
        elif group.traits_required or group.traits_forbidden:
            raise InvalidInputError(
                f"trait{suffix}:{min(group.traits_required | group.traits_forbidden)}",
                f"the group of this trait requests no resources; add resources{suffix}:CLASS=n",
            )


def is_isolated(specs: Mapping[str, str], groups: int) -> bool:
    """Return whether all suffixed groups must come from different providers.

    Args:
        specs: the extra specs of the flavor.
        groups: the number of suffixed groups.

    Raises:
        InvalidInputError: `group_policy` is invalid, or is missing although there are several
            groups.
    """
    policy = specs.get(GROUP_POLICY)
    if policy is None:
        # Placement rejects several groups without a policy.
        if groups > 1:
            raise InvalidInputError(
                GROUP_POLICY,
                "is required for several groups: set 'isolate' to serve each group from its own"
                " provider, or 'none' to let groups share providers",
            )
        return False
    if policy not in _POLICIES:
        raise InvalidInputError(GROUP_POLICY, f"{policy[:80]!r} must be 'none' or 'isolate'")
    return policy == "isolate"


def whole_number(text: str, key: str) -> int:
    """Return the amount that a string denotes.

    Raises:
        InvalidInputError: the string is not a whole number between 0 and AMOUNT_MAX; the error
            names `key`.
    """
    # The length is checked before `int`, which is slow for very long strings.
    short = text.isascii() and text.isdigit() and len(text) <= len(str(AMOUNT_MAX))
    if not short or int(text) > AMOUNT_MAX:
        raise InvalidInputError(
            key, f"{text[:80]!r} must be a whole number between 0 and {AMOUNT_MAX}"
        )
    return int(text)
