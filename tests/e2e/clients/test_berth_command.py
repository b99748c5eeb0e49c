"""The `berth` command with the settings that the guide gives for OpenStack's clients."""

import json
from pathlib import Path

import pytest

from tests.e2e.clients.clouds import client_environment, running
from tests.forks import run_berth

pytestmark = [pytest.mark.slow, pytest.mark.timeout(120)]


@pytest.mark.parametrize("mode", ["identity", "http_basic"])
def test_the_command_signs_in_with_openrc_clouds_yaml_and_contexts(
    mode: str, tmp_path: Path
) -> None:
    """All sources reach the same Berth; a wrong password is refused."""
    home = {"XDG_CONFIG_HOME": str(tmp_path / "config")}

    def berth(*words: str, **more: str) -> tuple[int, str]:
        environment = client_environment({**home, **more})
        done = run_berth(*words, environment=environment, folder=tmp_path)
        return done.returncode, done.stdout if done.returncode == 0 else done.stderr

    with running(mode, tmp_path) as cloud:
        (tmp_path / "clouds.yaml").write_text(cloud.clouds_yaml, "utf-8")
        openrc = cloud.environment("openstack")
        code, hosts = berth("host", "list", "--json", **openrc)
        assert code == 0, hosts
        assert len(json.loads(hosts)["hosts"]) == 4
        assert berth("--os-cloud", "berth", "host", "list", "--json") == (0, hosts)
        assert berth("context", "add", "guide", "--cloud", "berth")[0] == 0
        assert berth("host", "list", "--json") == (0, hosts)
        added = berth("context", "add", "own", "--url", cloud.url, "--user", "alice", "--use")
        assert added[0] == 0
        code, refused = berth("host", "list", BERTH_PASSWORD="wonder")
        assert code == 1
        assert "administrator" in refused
        code, refused = berth("--context", "guide", "server", "list", "--password", "wrong")
        assert code == 1
        assert "401" in refused
        replayed = berth("--os-cloud", "berth", "server", "list", "--json")
        assert json.loads(replayed[1]) == {"servers": []}
