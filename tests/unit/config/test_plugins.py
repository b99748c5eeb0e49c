"""Plugins: options checked against the signature of `build`, and faults kept inside."""

from collections.abc import Callable, Iterator
from importlib.metadata import EntryPoint
from typing import Annotated, TypeGuard

import pytest
from msgspec import Meta

from berth.config import plugins
from berth.config.plugins import FILTERS, WEIGHERS, build_plugin, plugin_names
from berth.domain.errors import PolicyError


class Made:
    """What the plugins of these tests build."""

    def __init__(self, name: str, options: object = None) -> None:
        self.name = name
        self.options = options


def is_made(built: object) -> TypeGuard[Made]:
    """Tell whether it is one."""
    return isinstance(built, Made)


def build_needy(*, size: int, label: str | None = None) -> Made:
    """Need an option."""
    return Made("needy", (size, label))


def build_ranged(*, share: Annotated[float, Meta(ge=0, le=1)] = 0.5) -> Made:
    """Take a number in a range."""
    return Made("ranged", share)


def build_listed(*, names: tuple[str, ...] = ()) -> Made:
    """Take a list."""
    return Made("listed", names)


def build_raising() -> Made:
    """Fail in an unexpected way."""
    raise ZeroDivisionError("oh")


def build_renamed() -> Made:
    """Call itself otherwise than it is installed."""
    return Made("other")


def build_nothing() -> None:
    """Build nothing."""


def build_loose(size: int = 1) -> Made:
    """Take an option that may be positional."""
    return Made("loose", size)


def build_untyped(*, size=1) -> Made:  # type: ignore[no-untyped-def] # noqa: ANN001
    """Take an option of no type."""
    return Made("untyped", size)


def build_odd(*, size: Callable[[], None] | Made | None = None) -> Made:
    """Take an option of a type that no file can hold."""
    return Made("odd", size)


def build_misspelt(*, size: "Nowhere" = 1) -> Made:  # type: ignore[name-defined] # noqa: F821
    """Take an option whose type is not there."""
    return Made("misspelt", size)


@pytest.fixture(autouse=True)
def _installed(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Have the functions above, and some that are broken, installed as filters."""
    entries = [
        EntryPoint(name.removeprefix("build_"), f"{__name__}:{name}", FILTERS)
        for name in globals()
        if name.startswith("build_") and name != "build_plugin"
    ]
    entries += [
        EntryPoint("missing", "nowhere.at_all:build", FILTERS),
        EntryPoint("constant", f"{__name__}:FILTERS", FILTERS),
        EntryPoint("twice", "one:build", FILTERS),
        EntryPoint("twice", "two:build", FILTERS),
        EntryPoint("needy", f"{__name__}:build_needy", FILTERS),
    ]

    def installed(*, group: str) -> list[EntryPoint]:
        return [entry for entry in entries if entry.group == group]

    monkeypatch.setattr(plugins, "entry_points", installed)
    monkeypatch.setattr(EntryPoint, "load", load)
    plugins._found.cache_clear()
    yield
    plugins._found.cache_clear()


def load(entry: EntryPoint) -> object:
    """Load from this module, whatever pytest calls it."""
    if entry.module != __name__:
        raise ModuleNotFoundError(f"No module named {entry.module!r}")
    return globals()[entry.attr]


def build(name: str, **options: object) -> object:
    """Build a plugin and return the options that it got."""
    return build_plugin(FILTERS, name, options, is_made, where="p: filters[0]").options


def refusal(name: str, **options: object) -> PolicyError:
    """Return the error that building ends with."""
    with pytest.raises(PolicyError) as caught:
        build(name, **options)
    return caught.value


def test_options_reach_the_plugin_with_its_defaults() -> None:
    """What the file says is passed by name, and the rest is left to the plugin."""
    assert build("needy", size=3) == (3, None)
    assert build("needy", size=3, label="x") == (3, "x")
    assert build("listed", names=["a", "b"]) == ("a", "b")


def test_a_required_option_must_be_there() -> None:
    """The missing one is named."""
    error = refusal("needy")
    assert error.where == "p: filters[0].size"
    assert "is required" in error.reason


def test_the_range_of_an_annotation_holds() -> None:
    """A plugin may say in its signature what it takes."""
    assert build("ranged", share=1) == 1.0
    assert "<= 1" in refusal("ranged", share=1.5).reason


def test_numbers_deep_in_an_option_are_finite() -> None:
    """A NaN is found in a list too."""
    assert refusal("listed", names=["a", float("nan")]).where == "p: filters[0].names[1]"


@pytest.mark.parametrize(
    ("name", "reason"),
    [
        ("raising", "cannot be built (ZeroDivisionError: oh)"),
        ("renamed", "has the name 'other' but is installed as 'renamed'"),
        ("nothing", "returned a NoneType, not a filter"),
        ("loose", "'size' of build() of loose must be keyword-only"),
        ("untyped", "'size' of build() of untyped must be keyword-only and annotated"),
        ("misspelt", "has no readable signature"),
        ("missing", "cannot be imported (ModuleNotFoundError"),
        ("constant", "is not a function"),
        ("twice", "is installed twice, as one:build and two:build"),
        ("raisin", "did you mean 'raising'?"),
    ],
)
def test_the_fault_of_a_plugin_is_told_and_goes_no_further(name: str, reason: str) -> None:
    """Whatever a plugin does wrong ends as a PolicyError that names it."""
    error = refusal(name)
    assert error.where == "p: filters[0]"
    assert reason in error.reason


def test_a_type_that_no_file_can_hold_is_the_plugins_fault() -> None:
    """The option is refused, not passed on unchecked."""
    assert "a fault of the plugin" in refusal("odd", size="x").reason


def test_an_entry_point_found_on_two_paths_is_one() -> None:
    """The same value twice is no quarrel."""
    assert build("needy", size=1) == (1, None)


def test_installed_names_are_listed_by_group() -> None:
    """Names are sorted, and a group has its own."""
    assert list(plugin_names(FILTERS)) == sorted(plugin_names(FILTERS))
    assert "needy" in plugin_names(FILTERS)
    assert plugin_names(WEIGHERS) == ()
