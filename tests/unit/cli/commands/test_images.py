"""`berth image`, `berth server image` and `berth server backup`, with a simulated cloud."""

import json
import time

import pytest

from tests.unit.cli.cloud import UUID, Cloud, Json
from tests.unit.cli.conftest import Run

SERVER = f"/v2.1/servers/{UUID.format(1)}"
IMAGE_ID = UUID.format(700)


def image(number: int, name: str, **more: object) -> Json:
    """Return an image as the API shows it."""
    shown: Json = {"id": UUID.format(number), "name": name, "status": "active"}
    return shown | {"visibility": "private", "size": 2_500_000, "checksum": None} | more


@pytest.fixture
def staffed(cloud: Cloud, monkeypatch: pytest.MonkeyPatch) -> Cloud:
    """Return a cloud with a server, two images of the same name, and one of the configuration."""
    monkeypatch.setattr(time, "sleep", lambda _: None)
    cloud.add_server("web")
    for one in (image(700, "twin"), image(701, "twin"), image(702, "disk", size=None)):
        cloud.images[one["id"]] = one
    cloud.fixed[("POST", f"{SERVER}/action")] = (202, {"image_id": IMAGE_ID})
    cloud.fixed[("GET", f"{SERVER}/os-instance-actions")] = (200, {"instanceActions": []})
    return cloud


def test_images_of_all_pages_are_listed_with_their_sizes(run: Run, staffed: Cloud) -> None:
    """Each image is a row; an image of the configuration has no size."""
    lines = run("image", "list").out.splitlines()
    assert lines[0].split() == ["ID", "Name", "Status", "Visibility", "Size", "MB", "Age"]
    rows = [line.split() for line in lines[1:]]
    assert [(row[1], row[4]) for row in rows] == [("twin", "2"), ("twin", "2"), ("disk", "-")]


def test_an_image_is_found_by_id_or_unique_name(run: Run, staffed: Cloud) -> None:
    """A name of two images is refused, and an unknown one is not found."""
    assert json.loads(run("image", "show", "disk", "--json").out)["image"]["name"] == "disk"
    assert UUID.format(701) in run("image", "show", UUID.format(701)).out
    assert run("image", "show", "twin").code == 2
    assert run("image", "show", "absent").code == 4


def test_nothing_is_deleted_if_a_name_is_wrong(run: Run, staffed: Cloud) -> None:
    """All names are resolved before the first deletion."""
    assert run("image", "delete", "disk", "absent").code == 4
    assert not any(request.method == "DELETE" for request in staffed.asked)
    assert run("image", "delete", "disk").code == 0
    assert UUID.format(702) not in staffed.images


def test_an_image_of_a_server_is_made(run: Run, staffed: Cloud) -> None:
    """The command prints the id of the image, and sends its properties."""
    ended = run("server", "image", "web", "golden", "--property", "os=debian")
    assert ended.out == f"{IMAGE_ID}\n"
    body = staffed.body()
    assert body == {"createImage": {"name": "golden", "metadata": {"os": "debian"}}}


def test_a_backup_has_its_type_and_rotation(run: Run, staffed: Cloud) -> None:
    """The defaults are one daily backup."""
    run("server", "backup", "web", "b")
    backup = {"name": "b", "backup_type": "daily", "rotation": 1, "metadata": {}}
    assert staffed.body() == {"createBackup": backup}
    run("server", "backup", "web", "b", "--type", "weekly", "--rotation", "4")
    assert staffed.body()["createBackup"]["rotation"] == 4


@pytest.mark.parametrize(("status", "code"), [("active", 0), ("killed", 1)])
def test_waiting_reports_an_image_without_data(
    run: Run, staffed: Cloud, status: str, code: int
) -> None:
    """With --wait the command fails unless the image is active when the task has ended."""
    staffed.images[IMAGE_ID]["status"] = status
    ended = run("server", "image", "web", "golden", "--wait")
    assert ended.code == code
    assert (f"is {status}" in ended.err) is (code != 0)
