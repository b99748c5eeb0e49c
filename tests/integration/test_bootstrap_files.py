"""Images from a file: their properties reach the rules."""

from pathlib import Path

import msgspec
import pytest

from berth.config.json_lists import fakes_of, read_images
from berth.config.settings import AgentSettings
from berth.domain.errors import InvalidInputError
from berth.domain.image import Image


def test_images_are_read_by_id(tmp_path: Path) -> None:
    """The file is a JSON list; what is left out has its default."""
    file = tmp_path / "images.json"
    file.write_text('[{"image_id": "arm", "properties": {"hw_architecture": "aarch64"}}]')
    assert read_images(file) == {"arm": Image("arm", "", {"hw_architecture": "aarch64"})}
    assert read_images(None) == {}


@pytest.mark.parametrize("text", ["{}", '[{"name": "x"}]', "nonsense"])
def test_a_wrong_file_is_named(tmp_path: Path, text: str) -> None:
    """The error names the file and what it should be."""
    file = tmp_path / "images.json"
    file.write_text(text)
    with pytest.raises(InvalidInputError, match=r"images\.json: is not a list of images"):
        read_images(file)


def test_a_fleet_names_each_host_once(tmp_path: Path) -> None:
    """Two hosts of one name would be one host."""
    file = tmp_path / "fleet.json"
    file.write_bytes(msgspec.json.encode([{"name": "a"}, {"name": "a"}]))
    with pytest.raises(InvalidInputError, match="names a host twice"):
        fakes_of(AgentSettings(fleet=file))
