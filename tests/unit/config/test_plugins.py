"""Plugins: options are checked against the signature of `build`, and faults become errors."""

from collections.abc import Callable, Iterator
from importlib.metadata import EntryPoint
from typing import Annotated, TypeGuard

import pytest
from msgspec import Meta

from berth.config import plugins
from berth.config.plugins import FILTERS, WEIGHERS, build_plugin, plugin_names
from berth.domain.errors import PolicyError


class Made:
    """The object that the plugins of these tests build."""

    def __init__(self, name: str, options: object = None) -> None:
        self.name = name
        self.options = options


def is_made(built: object) -> TypeGuard[Made]:
    """Return whether an object is a `Made`."""
    return isinstance(built, Made)


def build_needy(*, size: int, label: str | None = None) -> Made:
    """Build a plugin that requires an option."""
    return Made("needy", (size, label))


def build_ranged(*, share: Annotated[float, Meta(ge=0, le=1)] = 0.5) -> Made:
    """Build a plugin whose option has a range."""
    return Made("ranged", share)


def build_listed(*, names: tuple[str, ...] = ()) -> Made:
    """Build a plugin whose option is a list."""
    return Made("listed", names)


def build_raising() -> Made:
    """Raise an unexpected error."""
    raise ZeroDivisionError("oh")


def build_renamed() -> Made:
    """Build a plugin whose name differs from its entry point."""
    return Made("other")


def build_nothing() -> None:
    """Return None instead of a plugin."""


def build_loose(size: int = 1) -> Made:
    """Build a plugin whose option is not keyword-only."""
    return Made("loose", size)


def build_untyped(*, size=1) -> Made:  # type: ignore[no-untyped-def] # noqa: ANN001
    """Build a plugin whose option has no annotation."""
    return Made("untyped", size)


def build_odd(*, size: Callable[[], None] | Made | None = None) -> Made:
    """Build a plugin whose option has a type that no file can contain."""
    return Made("odd", size)


def build_misspelt(*, size: "Nowhere" = 1) -> Made:  # type: ignore[name-defined] # noqa: F821
    """Build a plugin whose option has an unknown type."""
    return Made("misspelt", size)


@pytest.fixture(autouse=True)
def _installed(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Install the functions above and some broken entry points as filters."""
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
    """Load an entry point of this module, under whatever name pytest imported it."""
    if entry.module != __name__:
        raise ModuleNotFoundError(f"No module named {entry.module!r}")
    return globals()[entry.attr]


def build(name: str, **options: object) -> object:
    """Build a plugin and return the options that it received."""
    return build_plugin(FILTERS, name, options, is_made, where="p: filters[0]").options


def refusal(name: str, **options: object) -> PolicyError:
    """Return the error of a build that fails."""
    with pytest.raises(PolicyError) as caught:
        build(name, **options)
    return caught.value


def test_options_reach_the_plugin_with_its_defaults() -> None:
    """Options are passed by name, and missing ones keep the plugin's defaults."""
    assert build("needy", size=3) == (3, None)
    assert build("needy", size=3, label="x") == (3, "x")
    assert build("listed", names=["a", "b"]) == ("a", "b")


def test_a_required_option_must_be_there() -> None:
    """The error names the missing option."""
    error = refusal("needy")
    assert error.where == "p: filters[0].size"
    assert "is required" in error.reason


def test_the_range_of_an_annotation_holds() -> None:
    """A value outside the annotated range is refused."""
    assert build("ranged", share=1) == 1.0
    assert "<= 1" in refusal("ranged", share=1.5).reason


def test_numbers_deep_in_an_option_are_finite() -> None:
    """A NaN in a list is refused, and the error has its index."""
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
        ("twice", "is installed more than once, as one:build and two:build"),
        ("raisin", "did you mean 'raising'?"),
    ],
)
def test_the_fault_of_a_plugin_is_told_and_goes_no_further(name: str, reason: str) -> None:
    """Every fault of a plugin becomes a PolicyError that names it."""
    error = refusal(name)
    assert error.where == "p: filters[0]"
    assert reason in error.reason


def test_a_type_that_no_file_can_hold_is_the_plugins_fault() -> None:
    """An option that cannot be checked is refused."""
    assert "a fault of the plugin" in refusal("odd", size="x").reason


def test_an_entry_point_found_on_two_paths_is_one() -> None:
    """Two equal entry points count as one."""
    assert build("needy", size=1) == (1, None)


def test_installed_names_are_listed_by_group() -> None:
    """The names of each group are sorted, and groups are separate."""
    assert list(plugin_names(FILTERS)) == sorted(plugin_names(FILTERS))
    assert "needy" in plugin_names(FILTERS)
    assert plugin_names(WEIGHERS) == ()
