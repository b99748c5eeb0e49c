"""The clients as a user starts them: with clouds.yaml or openrc, each in its own process."""

import json
import subprocess
from collections.abc import Mapping
from pathlib import Path

import pytest

from tests.e2e.clients.clouds import (
    ENVIRONMENT,
    MISSING,
    PYTHON,
    ROOT,
    SETTINGS,
    client_environment,
    running,
)
from tests.e2e.clients.programs import Programs

PLAYBOOK = Path(__file__).with_name("server.yml")

pytestmark = [pytest.mark.slow, pytest.mark.timeout(300)]


def run(words: list[str], folder: Path, environment: Mapping[str, str]) -> str:
    """Run a program and return its standard output.

    Raises:
        AssertionError: it failed; the message contains the end of its output.
    """
    done = subprocess.run(
        words,
        cwd=folder,
        env=client_environment({**environment, "PYTHONPATH": str(ROOT)}),
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    assert done.returncode == 0, f"{words}: {done.stdout[-2000:]}{done.stderr[-4000:]}"
    return done.stdout


@pytest.mark.parametrize("mode", SETTINGS)
def test_the_settings_of_the_guide_work(mode: str, tmp_path: Path) -> None:
    """The guide's clouds.yaml works with the SDK and Ansible, its openrc with both programs."""
    if not PYTHON.exists():
        pytest.skip(MISSING)
    with running(mode, tmp_path) as cloud:
        (tmp_path / "clouds.yaml").write_text(cloud.clouds_yaml, "utf-8")
        story = [str(PYTHON), "-m", "tests.e2e.clients.sdk_story", mode]
        reservation_id = run(story, tmp_path, {}).split()[-1]
        openstack = [str(ENVIRONMENT / "bin" / "openstack"), "server", "list", "-f", "json"]
        found = json.loads(run(openstack, tmp_path, cloud.environment("openstack")))
        assert {one["Name"] for one in found} == {"reserved-1", "reserved-2"}
        nova = [str(ENVIRONMENT / "bin" / "nova"), "list", "--reservation-id", reservation_id]
        if mode in {"identity", "none"}:
            listed = run(nova, tmp_path, cloud.environment("nova"))
            assert listed.count("reserved-") == 2
        if mode == "identity":
            play = [str(ENVIRONMENT / "bin" / "ansible-playbook"), "-i", "localhost,"]
            play += ["-e", f"ansible_python_interpreter={PYTHON}", str(PLAYBOOK)]
            # Modules run in the folder of the playbook, so they do not find the file by themselves.
            paths = {
                "ANSIBLE_COLLECTIONS_PATH": ENVIRONMENT / "collections",
                "ANSIBLE_HOME": tmp_path / "ansible",
                "OS_CLIENT_CONFIG_FILE": tmp_path / "clouds.yaml",
            }
            run(play, tmp_path, {name: str(path) for name, path in paths.items()})


@pytest.mark.parametrize("mode", ["identity", "http_basic"])
def test_who_is_no_administrator_sees_the_own_project(
    mode: str, programs: Programs, tmp_path: Path
) -> None:
    """A member creates and lists servers of the own project; the fleet is hidden, with a reason."""
    with running(mode, tmp_path) as cloud:
        admin = cloud.environment("openstack")
        alice = cloud.environment("openstack", "alice")
        flavor = "openstack flavor create --vcpus 1 --ram 64 --disk 1 tiny -f json"
        assert programs.call(flavor, admin).json["name"] == "tiny"
        server = "openstack server create --flavor tiny --image cirros --nic none hers -f json"
        made = programs.call(server, alice).json
        assert (made["user_id"], made["project_id"]) == ("alice", "web")
        listed = programs.call("openstack server list -f json", alice).json
        assert [one["Name"] for one in listed] == ["hers"]
        assert programs.call("openstack server list -f json", admin).json == []
        hidden = programs.call("openstack hypervisor list", alice)
        assert hidden.code != 0
        assert "Only administrators" in hidden.err
        wrong = programs.call("openstack flavor list", {**alice, "OS_PASSWORD": "wrong"})
        assert wrong.code != 0
        assert "401" in wrong.err
