"""Policy files: their keys, and the errors for invalid ones."""

import tomllib
from pathlib import Path

import pytest

from berth.config.policy_file import FILE_BYTES_MAX, load_policy, parse_policy
from berth.domain.errors import PolicyError
from berth.domain.hardware.pci import aliases_of
from berth.scheduling.hardware.hardware_fit import HardwareAssign
from berth.scheduling.rules.rule import Normalisation
from berth.tables.host.feed import table_of
from berth.testing.fleets import NOW_S, Box, asking, snapshot_of

RESOURCES = '[[filters]]\nname = "ResourcesFilter"\n'
SMALLEST = f'name = "small"\n{RESOURCES}'

FILTERS = [
    "ComputeFilter",
    "AvailabilityZoneFilter",
    "ResourcesFilter",
    "TraitsFilter",
    "GranularGroupsFilter",
    "ComputeCapabilitiesFilter",
    "ImagePropertiesFilter",
    "ServerGroupAntiAffinityFilter",
    "ServerGroupAffinityFilter",
    "DifferentHostFilter",
    "SameHostFilter",
    "RetryFilter",
    "NUMATopologyFilter",
    "PciPassthroughFilter",
]
WEIGHERS = ["ServerGroupSoftAffinityWeigher", "ServerGroupSoftAntiAffinityWeigher"]


def refusal(text: str) -> PolicyError:
    """Return the error for an invalid document."""
    with pytest.raises(PolicyError) as caught:
        parse_policy(text, "p.toml")
    return caught.value


def test_the_default_policy_is_complete() -> None:
    """The default policy normalises by share and has all filters that requests may need."""
    policy = load_policy(None)
    assert (policy.name, policy.driver.name) == ("default", "filter")
    assert policy.normalisation is Normalisation.SHARE
    names = [rule.name for rule in policy.filters]
    assert [name for name in names if name in FILTERS] == FILTERS
    assert {"GranularGroupsFilter", "NUMATopologyFilter", "PciPassthroughFilter"} <= set(names)
    assert {rule.name for rule in policy.weighers} >= set(WEIGHERS)
    assert (policy.host_subset_size, policy.runners_up) == (1, 3)
    assert not policy.shuffle_best_same_weighed_hosts


def test_the_smallest_policy_takes_defaults() -> None:
    """A name and the ResourcesFilter are enough."""
    policy = parse_policy(SMALLEST, "p.toml")
    assert policy.name == "small"
    assert policy.driver.name == "filter"
    assert policy.weighers == ()
    assert (policy.host_subset_size, policy.runners_up) == (1, 3)


def test_every_key_is_read(tmp_path: Path) -> None:
    """Every key of the file is in the policy."""
    path = tmp_path / "policy.toml"
    path.write_text(
        f'name = "n"\ndriver = "chance"\nhost_subset_size = 4\nrunners_up = 0\n'
        f"shuffle_best_same_weighed_hosts = true\n{RESOURCES}"
        f'[[weighers]]\nname = "RAMWeigher"\nmultiplier = -2\n[driver_options]\n'
    )
    policy = load_policy(path)
    assert policy.driver.name == "chance"
    assert (policy.host_subset_size, policy.runners_up) == (4, 0)
    assert policy.shuffle_best_same_weighed_hosts
    assert [rule.multiplier for rule in policy.weighers] == [-2.0]


@pytest.mark.parametrize("shuffles", [True, False])
def test_shuffling_ignores_lots(tmp_path: Path, *, shuffles: bool) -> None:
    """Lots order equal hosts by a fixed sequence, so shuffled hosts have none."""
    path = tmp_path / "policy.toml"
    path.write_text(
        f"shuffle_best_same_weighed_hosts = {str(shuffles).lower()}\n"
        f'name = "n"\ndriver = "filter"\n'
        f'{RESOURCES}[[weighers]]\nname = "RAMWeigher"\nmultiplier = 1\n'
        '[[weighers]]\nname = "HostLotWeigher"\nmultiplier = 0.001\n'
    )
    table = table_of(snapshot_of([Box("a"), Box("b"), Box("c"), Box("d", used={"MEMORY_MB": 512})]))
    policy = load_policy(path)
    chosen = set[str]()
    for seed in range(40):
        plan = policy.driver.plan(table, asking(), policy, now_s=NOW_S, seed=seed)
        chosen.add(plan.placements[0].host)
    assert chosen == {"a", "b", "c"} if shuffles else len(chosen) == 1


NIC = '{ name = "nic", vendor_id = "8086", product_id = "154c" }'
HARDWARE = (
    f'{RESOURCES}[[filters]]\nname = "NUMATopologyFilter"\n'
    '[[filters]]\nname = "PciPassthroughFilter"\n'
)


def test_some_keys_stand_for_an_option_of_every_rule_that_has_it() -> None:
    """A key of the policy sets the option of each rule that has it, unless the rule sets it."""
    policy = parse_policy(
        f'name = "n"\nnuma_packing = false\npci_aliases = [{NIC}]\n{HARDWARE}', "p.toml"
    )
    cells, devices = policy.filters[1].assign, policy.filters[2].assign
    assert (
        cells
        == devices
        == HardwareAssign(aliases_of([tomllib.loads(f"x = {NIC}")["x"]]), packs=False)
    )
    own = parse_policy(f'name = "n"\npci_aliases = []\n{HARDWARE}numa_packing = false\n', "p.toml")
    assert own.filters[1].assign == HardwareAssign((), packs=True)
    assert own.filters[2].assign == HardwareAssign((), packs=False)


@pytest.mark.parametrize(
    ("text", "where", "reason"),
    [
        (f"numa_packing = 1\n{SMALLEST}", "numa_packing", "Expected `bool`"),
        (f"pci_aliases = 1\n{SMALLEST}", "pci_aliases", "Expected `array`"),
        (f"pci_aliases = [{{x = 1}}]\n{SMALLEST}", "pci_aliases", "Expected `str`, got `int`"),
        (
            f'pci_aliases = [{NIC}, {{ name = "x" }}]\nname = "n"\n{HARDWARE}',
            "filters[1]",
            "pci_aliases[1].vendor_id: is required",
        ),
        (SMALLEST + "[[filter]]\n", "filter", "did you mean 'filters'?"),
        (RESOURCES, "name", "is required"),
        (f"name = 1\n{RESOURCES}", "name", "Expected `str`, got `int`; the value is 1"),
        (f'name = ""\n{RESOURCES}', "name", "length >= 1"),
        (f"host_subset_size = 0\n{SMALLEST}", "host_subset_size", ">= 1"),
        (f"host_subset_size = true\n{SMALLEST}", "host_subset_size", "got `bool`"),
        (f"host_subset_size = 1.5\n{SMALLEST}", "host_subset_size", "got `float`"),
        (f"runners_up = -1\n{SMALLEST}", "runners_up", ">= 0"),
        (f"runners_up = 101\n{SMALLEST}", "runners_up", "<= 100"),
        (
            f"shuffle_best_same_weighed_hosts = 1\n{SMALLEST}",
            "shuffle_best_same_weighed_hosts",
            "got `int`",
        ),
        (f"driver = 3\n{SMALLEST}", "driver", "Expected `str`"),
        (f'driver = "filtr"\n{SMALLEST}', "driver", "did you mean 'filter'?"),
        (f"driver_options = 3\n{SMALLEST}", "driver_options", "must be a table"),
        (
            f'driver = "chance"\n{SMALLEST}[driver_options]\nx = 1\n',
            "driver_options.x",
            "no options",
        ),
        ('name = "n"', "filters", "is empty"),
        ('name = "n"\nfilters = []', "filters", "is empty"),
        ('name = "n"\nfilters = 1', "filters", "write [[filters]]"),
        ('name = "n"\nfilters = [1]', "filters[0]", "must be a table"),
        (f"{SMALLEST}[[filters]]\n", "filters[1].name", "is required"),
        (f"{SMALLEST}[[filters]]\nname = 1\n", "filters[1].name", "set it to the name of a rule"),
        (SMALLEST + RESOURCES, "filters[1].name", "is listed twice"),
        (
            'name = "n"\n[[filters]]\nname = "ComputeFilter"\n',
            "filters",
            "ResourcesFilter is missing",
        ),
        (
            'name = "n"\n[[filters]]\nname = "ResourceFilter"\n',
            "filters[0]",
            "there is no filter 'ResourceFilter'; did you mean 'ResourcesFilter'?",
        ),
        (
            f'{SMALLEST}[[weighers]]\nname = "RamWeigher"\n',
            "weighers[0]",
            "did you mean 'RAMWeigher'?",
        ),
        (
            f'{SMALLEST}[[weighers]]\nname = "ResourcesFilter"\n',
            "weighers[0]",
            "there is no weigher",
        ),
        (
            f'{SMALLEST}[[filters]]\nname = "ComputeFilter"\nservice_downtime_s = 1\n',
            "filters[1].service_downtime_s",
            "did you mean 'service_down_time_s'?",
        ),
        (
            f'{SMALLEST}[[filters]]\nname = "ComputeFilter"\nservice_down_time_s = "1"\n',
            "filters[1].service_down_time_s",
            "Expected `float`, got `str`",
        ),
        (
            f'{SMALLEST}[[filters]]\nname = "ComputeFilter"\nservice_down_time_s = true\n',
            "filters[1].service_down_time_s",
            "got `bool`",
        ),
        (
            f'{SMALLEST}[[weighers]]\nname = "RAMWeigher"\nmultiplier = nan\n',
            "weighers[0].multiplier",
            "nan must be a finite number",
        ),
        (
            f'{SMALLEST}[[weighers]]\nname = "RAMWeigher"\nmultiplier = -inf\n',
            "weighers[0].multiplier",
            "-inf must be a finite number",
        ),
        (
            f'{SMALLEST}[[weighers]]\nname = "CPUWeigher"\nresource_class = "a b"\n',
            "weighers[0]",
            "cannot be built (InvalidInputError: resource_class",
        ),
    ],
)
def test_what_is_wrong_is_named_with_its_place(text: str, where: str, reason: str) -> None:
    """The error names the file, the place in it, and the reason."""
    error = refusal(text)
    assert error.where == f"p.toml: {where}"
    assert reason in error.reason


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ('name = "n"\nx = = 1\n', "line 2"),
        ('name = "n"\n\ndriver =', "line 3"),
        ('name = "a"\nname = "b"\n', "line 2"),
        ("name = " + "[" * 100_000, "is not valid TOML"),
        ("name = " + "1" * 5_000, "is not valid TOML"),
    ],
)
def test_what_is_no_toml_is_refused_with_its_line(text: str, reason: str) -> None:
    """A syntax error is reported with its line; extreme nesting is refused."""
    assert reason in refusal(text).reason


def test_an_integer_will_do_for_a_float() -> None:
    """`60` is accepted for a float."""
    text = f'{SMALLEST}[[filters]]\nname = "ComputeFilter"\nservice_down_time_s = 60\n'
    assert [rule.name for rule in parse_policy(text, "p.toml").filters][1] == "ComputeFilter"


def test_the_hash_depends_on_the_meaning_alone() -> None:
    """Comments, layout and key order do not change the hash, and a changed value does."""
    one = parse_policy(f'name = "n"\nrunners_up = 1\n{RESOURCES}', "a")
    same = parse_policy(f"# said otherwise\nrunners_up=1\nname='n'\n{RESOURCES}", "b")
    other = parse_policy(f'name = "n"\nrunners_up = 2\n{RESOURCES}', "a")
    assert one.hash == same.hash
    assert one.hash != other.hash
    assert len(one.hash) == 16
    assert int(one.hash, 16) >= 0


def test_a_file_that_cannot_be_read_is_named(tmp_path: Path) -> None:
    """A missing file, a file that is not UTF-8 and one that is too large are refused."""
    missing = tmp_path / "missing.toml"
    with pytest.raises(PolicyError, match=r"missing\.toml: cannot be read"):
        load_policy(missing)
    binary = tmp_path / "binary.toml"
    binary.write_bytes(b"name = \xff")
    with pytest.raises(PolicyError, match="is not UTF-8 text at byte 7"):
        load_policy(binary)
    huge = tmp_path / "huge.toml"
    huge.write_bytes(b"#" * (FILE_BYTES_MAX + 1))
    with pytest.raises(PolicyError, match="is larger than"):
        load_policy(huge)
