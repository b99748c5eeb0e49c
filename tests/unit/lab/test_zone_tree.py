"""Tests for the shape of zone trees and the files of each zone."""

import tomllib
from pathlib import Path

import pytest

from berth.adapters.virt.fake import FakeHost
from berth.config import zone_keys
from berth.config.auth_file import parse_accounts
from berth.config.settings_reader import read_settings
from berth.domain.errors import InvalidInputError, UnavailableError
from berth.lab.zone_process import ZoneSpec
from berth.lab.zone_tree import made_tree, tree_of


def one_host(name: str, depth: int) -> list[FakeHost]:
    """Return a fleet of one host, named by its zone and level."""
    return [FakeHost(f"{name}@{depth}")]


def test_a_tree_has_as_many_zones_as_its_shape_says() -> None:
    """The tree follows the given shape; children are numbered and have their own hosts."""
    root = tree_of((3, 2), one_host)
    assert root.name == "root"
    assert [one.name for one in root.children] == ["zone-1", "zone-2", "zone-3"]
    assert [one.name for one in root.children[1].children] == ["zone-2-1", "zone-2-2"]
    assert root.children[1].children[0].hosts[0].name == "zone-2-1@2"
    assert not root.children[1].children[0].children


def test_a_level_without_zones_is_refused() -> None:
    """A shape with a level of zero zones is refused."""
    with pytest.raises(InvalidInputError, match="must be at least 1"):
        tree_of((2, 0), one_host)


def test_two_zones_of_one_name_are_refused(tmp_path: Path) -> None:
    """Two zones with the same name are refused."""
    spec = ZoneSpec("root", children=(ZoneSpec("west"), ZoneSpec("west")))
    with pytest.raises(InvalidInputError, match="west"), made_tree(spec, tmp_path):
        pass


def test_parents_come_before_their_children(tmp_path: Path) -> None:
    """Zones are listed parents first, with their parent, depth and distinct URLs."""
    with made_tree(tree_of((2, 1), one_host), tmp_path) as tree:
        assert [(zone.name, zone.depth) for zone in tree] == [
            ("root", 0),
            ("zone-1", 1),
            ("zone-2", 1),
            ("zone-1-1", 2),
            ("zone-2-1", 2),
        ]
        assert len(tree) == len({zone.url for zone in tree}) == 5
        assert [one.name for one in tree.children_of(tree.root)] == ["zone-1", "zone-2"]
        assert tree["zone-1-1"].parent is tree["zone-1"]


def test_a_zone_trusts_its_parent_alone(tmp_path: Path) -> None:
    """A zone has its parent's public keys and an account for its parent."""
    with made_tree(tree_of((1, 1), one_host), tmp_path) as tree:
        leaf = tree["zone-1-1"]
        assert set(zone_keys.parents(leaf.parents_file)) == {"zone-1"}
        assert zone_keys.parents(tree.root.parents_file) == {}
        accounts = parse_accounts((leaf.folder / "accounts").read_text(), "accounts")
        assert set(accounts) == {"admin", "tenant", "zone-zone-1"}
        assert leaf.for_parent is not None
        assert leaf.for_parent.user == "zone-zone-1"


def test_settings_of_a_zone_can_be_read_and_beat_the_usual_ones(tmp_path: Path) -> None:
    """The given settings override those that the tree sets by default."""
    given = {
        "zones.offer_hold_s": 0,
        "zones.told_capabilities": ["free.VCPU"],
        "log.level": "error",
    }
    with made_tree(tree_of((), one_host, given), tmp_path) as tree:
        file = tree.root.folder / "berth.toml"
        settings = read_settings(file, {}, {})
    assert settings.zones.name == "root"
    assert settings.zones.offer_hold_s == 0
    assert settings.zones.told_capabilities == ("free.VCPU",)
    assert settings.log.level == "error"
    assert tomllib.loads(file.read_text())["auth"]["mode"] == "http_basic"


def test_files_go_away_with_a_tree_that_was_given_no_folder() -> None:
    """A tree without a given folder removes its files when it is closed."""
    with made_tree(tree_of((1,), one_host)) as tree:
        folder = tree.root.folder
        assert folder.is_dir()
    assert not folder.parent.exists()


def test_a_zone_that_does_not_run_is_said_so() -> None:
    """Waiting for a zone that is not running fails with the end of its log."""
    with made_tree(tree_of((), one_host)) as tree:
        assert tree.root.pid is None
        with pytest.raises(UnavailableError, match="zone root did not become ready"):
            tree.root.wait_until_ready()
        tree.root.log.write_text("the port is taken")
        with pytest.raises(UnavailableError, match="the port is taken"):
            tree.root.wait_until_ready()
