"""The config drive of guests, and the file system that it consists of."""

import base64
import json
import string
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from berth.adapters.virt.config_drive import SIZE_BYTES, config_drive_of
from berth.adapters.virt.iso9660 import iso_image
from berth.domain.compute.build_failure import BuildError
from berth.domain.compute.quota import FILE_BYTES_MAX, FILES_MAX, PATH_BYTES_MAX
from berth.testing.builders import make_instance
from tests.iso_reader import files_of, label_of

INSTANCE = replace(
    make_instance(1), name="Web 1", metadata={"role": "w\N{LATIN SMALL LETTER E WITH ACUTE}b"}
)
KEY = "ssh-ed25519 AAAA alice@laptop"
PATH = st.lists(st.text(string.ascii_lowercase + "_", min_size=1, max_size=30), min_size=1).map(
    "/".join
)


@given(st.dictionaries(PATH, st.binary(max_size=5_000), max_size=8))
def test_files_are_read_as_they_were_written(files: dict[str, bytes]) -> None:
    """A reader finds each file at its path with its content."""
    # A name cannot be both a file and a folder.
    folders = {path[:at] for path in files for at, char in enumerate(path) if char == "/"}
    files = {path: content for path, content in files.items() if path not in folders}
    image = iso_image("label", files)
    assert label_of(image) == "label"
    assert files_of(image) == files


@pytest.mark.parametrize(
    ("label", "files"),
    [
        ("x" * 33, {}),
        ("x", {"n" * 31: b""}),
        ("x", {f"{number:030}": b"" for number in range(40)}),
    ],
)
def test_what_does_not_fit_is_refused(label: str, files: dict[str, bytes]) -> None:
    """A label or name that is too long, or a folder that is too full, is an error."""
    with pytest.raises(ValueError, match=r"more than"):
        iso_image(label, files)


def test_a_guest_reads_its_metadata_key_and_user_data() -> None:
    """The drive has OpenStack's files, and the size that all config drives have."""
    extra = {
        "has_config_drive": True,
        "key_name": "mine",
        "key_type": "ssh",
        "key_data": KEY,
        "user_data": base64.b64encode(b"#cloud-config").decode(),
    }
    content = config_drive_of(replace(INSTANCE, extra=extra))
    assert content is not None
    assert len(content) == SIZE_BYTES
    assert label_of(content) == "config-2"
    files = files_of(content)
    assert set(files) == {
        f"openstack/latest/{name}"
        for name in ("meta_data.json", "network_data.json", "user_data", "vendor_data.json")
    }
    assert files["openstack/latest/user_data"] == b"#cloud-config"
    shown = json.loads(files["openstack/latest/meta_data.json"])
    assert (shown["uuid"], shown["name"], shown["hostname"]) == (INSTANCE.uuid, "Web 1", "web-1")
    assert shown["meta"] == INSTANCE.metadata
    assert shown["public_keys"] == {"mine": KEY}
    assert shown["keys"] == [{"name": "mine", "type": "ssh", "data": KEY}]


def test_a_guest_without_the_mark_has_no_drive() -> None:
    """A guest that was built without a config drive never gets one on another host."""
    assert config_drive_of(replace(INSTANCE, extra={"key_data": KEY, "config_drive": True})) is None


def test_too_much_content_fails_the_build() -> None:
    """The error says what to do, and does not blame the host."""
    extra = {"has_config_drive": True, "user_data": base64.b64encode(bytes(SIZE_BYTES)).decode()}
    with pytest.raises(BuildError, match="use less metadata, user data or files") as caught:
        config_drive_of(replace(INSTANCE, extra=extra))
    assert not caught.value.blames_host


def test_a_guest_reads_its_files() -> None:
    """The metadata names the path of each file, and where on the drive its content is."""
    contents = [b"first", b"\0\xff"]
    files = [
        {"path": f"/etc/{number}", "contents": base64.b64encode(one).decode()}
        for number, one in enumerate(contents)
    ]
    drive = config_drive_of(replace(INSTANCE, extra={"has_config_drive": True, "files": files}))
    assert drive is not None
    found = files_of(drive)
    metadata = json.loads(found["openstack/latest/meta_data.json"])
    assert metadata["files"] == [
        {"path": "/etc/0", "content_path": "/content/0000"},
        {"path": "/etc/1", "content_path": "/content/0001"},
    ]
    assert [found[f"openstack{one['content_path']}"] for one in metadata["files"]] == contents


def test_the_largest_files_fit() -> None:
    """A config drive has room for as many files as a quota can allow, each of the largest size."""
    contents = base64.b64encode(b"x" * (FILE_BYTES_MAX // 4 * 3)).decode()
    assert len(contents) == FILE_BYTES_MAX
    files = [{"path": "p" * PATH_BYTES_MAX, "contents": contents}] * FILES_MAX
    extra = {"has_config_drive": True, "files": files, "user_data": "YWFh" * 16_383}
    assert config_drive_of(replace(INSTANCE, extra=extra)) is not None


def test_a_file_that_is_not_base64_fails_the_build() -> None:
    """The error does not blame the host."""
    files = [{"path": "/a", "contents": "Y"}]
    with pytest.raises(BuildError, match="a file is not valid base64") as caught:
        config_drive_of(replace(INSTANCE, extra={"has_config_drive": True, "files": files}))
    assert not caught.value.blames_host
