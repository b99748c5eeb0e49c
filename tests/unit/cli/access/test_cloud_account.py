"""Accounts in clouds.yaml and in OS_* variables."""

import json
from pathlib import Path

import pytest

from berth.cli.access.cloud_account import (
    ADMIN_TOKEN,
    APPLICATION_CREDENTIAL,
    HTTP_BASIC,
    NONE,
    PASSWORD,
    TOKEN,
    cloud_of_files,
    cloud_of_variables,
    root_of,
)
from berth.cli.failures import CommandError, ExitCode

AUTH = """
    auth:
      auth_url: https://keystone.example:5000
      username: ann
      password: secret
      project_name: web
"""


def clouds(folder: Path, text: str, name: str = "clouds.yaml") -> Path:
    """Write a file of clouds; return its path."""
    folder.mkdir(parents=True, exist_ok=True)
    (folder / name).write_text(text, "utf-8")
    return folder / name


@pytest.mark.parametrize(
    "url",
    [
        "http://h:1",
        "http://h:1/",
        "http://h:1/v2.1",
        "http://h:1/v2.1/",
        "http://h:1/v2.1/0123abcd",
        "http://h:1/placement",
        "http://h:1/identity/v3",
        "http://h:1/image",
    ],
)
def test_the_root_is_the_same_for_every_api(url: str) -> None:
    """Version and project of a URL are removed, a path of a proxy is kept."""
    assert root_of(url) == "http://h:1"
    assert root_of(url.replace("h:1", "h:1/berth")) == "http://h:1/berth"


def test_a_cloud_of_the_current_folder_is_found(tmp_path: Path) -> None:
    """All fields are read, and the region and interface are those of the file."""
    path = clouds(tmp_path, f"clouds:\n  c:{AUTH}    region_name: R\n    interface: internal\n")
    found = cloud_of_files("c", {}, tmp_path)
    assert found.method == PASSWORD
    assert found.auth == {
        "auth_url": "https://keystone.example:5000",
        "username": "ann",
        "password": "secret",
        "project_name": "web",
    }
    assert (found.region, found.interface, found.is_verified) == ("R", "internal", True)
    assert found.origin == f"cloud c ({path})"


def test_the_first_file_in_the_order_of_openstack_counts(tmp_path: Path) -> None:
    """OS_CLIENT_CONFIG_FILE, the current folder, the user's folder."""
    environ = {"XDG_CONFIG_HOME": str(tmp_path / "config")}
    text = f"clouds:\n  c:{AUTH}"
    users = clouds(tmp_path / "config" / "openstack", text, "clouds.yml")
    assert str(users) in cloud_of_files("c", environ, tmp_path).origin
    here = clouds(tmp_path, text)
    assert str(here) in cloud_of_files("c", environ, tmp_path).origin
    named = clouds(tmp_path / "other", json.dumps({"clouds": {"c": {"auth": {"auth_url": "u"}}}}))
    environ["OS_CLIENT_CONFIG_FILE"] = str(named)
    assert str(named) in cloud_of_files("c", environ, tmp_path).origin


def test_secrets_may_be_in_a_file_of_their_own(tmp_path: Path) -> None:
    """secure.yaml adds to the cloud of its name; OS_PASSWORD is the last resort."""
    clouds(tmp_path, f"clouds:\n  c:{AUTH.replace('password: secret', 'user_id: u')}")
    assert "password" not in cloud_of_files("c", {}, tmp_path).auth
    assert cloud_of_files("c", {"OS_PASSWORD": "p"}, tmp_path).auth["password"] == "p"
    clouds(tmp_path, "clouds:\n  c:\n    auth:\n      password: s\n", "secure.yaml")
    found = cloud_of_files("c", {"OS_PASSWORD": "p"}, tmp_path)
    assert found.auth["password"] == "s"
    assert found.auth["project_name"] == "web"


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("clouds:\n  prod:\n    auth: {auth_url: u}\n", "did you mean 'prod'?"),
        ("clouds: {}\n", "check the name"),
        ("- clouds\n", "has no `clouds`"),
        ("clouds: {a: 'secret\n", "is not valid YAML"),
        ("clouds:\n  prd:\n    profile: vexxhost\n", "names a profile"),
        ("clouds:\n  prd:\n    auth: {username: u}\n", "auth_url is missing"),
        ("clouds:\n  prd:\n    auth_type: http_basic\n", "needs compute_endpoint_override"),
        ("clouds:\n  prd:\n    auth_type: v3kerberos\n", "is not supported"),
    ],
)
def test_an_unusable_cloud_is_refused(tmp_path: Path, text: str, said: str) -> None:
    """The error says what to do, and quotes no secret."""
    clouds(tmp_path, text)
    with pytest.raises(CommandError) as error:
        cloud_of_files("prd", {}, tmp_path)
    assert said in str(error.value)
    assert "secret" not in str(error.value)


def test_a_cloud_without_any_file_is_not_found(tmp_path: Path) -> None:
    """The error names the folders; a named file must exist."""
    environ = {"XDG_CONFIG_HOME": str(tmp_path)}
    with pytest.raises(CommandError, match=r"there is no clouds\.yaml") as error:
        cloud_of_files("c", environ, tmp_path)
    assert error.value.code is ExitCode.NOT_FOUND
    environ["OS_CLIENT_CONFIG_FILE"] = str(tmp_path / "none.yaml")
    with pytest.raises(CommandError, match=r"none\.yaml cannot be read"):
        cloud_of_files("c", environ, tmp_path)


def test_variables_without_an_address_are_no_account() -> None:
    """A user name alone does not change how commands sign in."""
    assert cloud_of_variables({"OS_USERNAME": "ann", "OS_PASSWORD": "p"}) is None


@pytest.mark.parametrize(
    ("environ", "method"),
    [
        ({"OS_AUTH_URL": "u"}, PASSWORD),
        ({"OS_AUTH_URL": "u", "OS_TOKEN": "t"}, TOKEN),
        ({"OS_AUTH_URL": "u", "OS_AUTH_TYPE": "v3token", "OS_TOKEN": "t"}, TOKEN),
        ({"OS_AUTH_URL": "u", "OS_AUTH_TYPE": "v3password"}, PASSWORD),
        ({"OS_AUTH_URL": "u", "OS_APPLICATION_CREDENTIAL_SECRET": "s"}, APPLICATION_CREDENTIAL),
        ({"OS_AUTH_TYPE": "http_basic", "OS_ENDPOINT": "http://h/placement"}, HTTP_BASIC),
        ({"OS_AUTH_TYPE": "admin_token", "OS_ENDPOINT": "http://h/v2.1"}, ADMIN_TOKEN),
        ({"OS_AUTH_TYPE": "none", "OS_COMPUTE_ENDPOINT_OVERRIDE": "http://h/v2.1"}, NONE),
    ],
)
def test_the_method_follows_from_the_variables(environ: dict[str, str], method: str) -> None:
    """The names are those of keystoneauth; without one, the values decide as there."""
    found = cloud_of_variables(environ)
    assert found is not None
    assert found.method == method
    if "OS_AUTH_URL" not in environ:
        assert found.root == "http://h"


def test_former_names_of_variables_are_accepted() -> None:
    """Tenants are projects, and the endpoint type is the interface."""
    environ = {"OS_AUTH_URL": "u", "OS_TENANT_NAME": "web", "OS_ENDPOINT_TYPE": "internalURL"}
    environ |= {"OS_CACERT": "/ca.pem", "OS_INSECURE": "true", "OS_DEFAULT_DOMAIN": "d"}
    found = cloud_of_variables(environ)
    assert found is not None
    assert found.auth["project_name"] == "web"
    assert found.auth["default_domain_id"] == "d"
    assert (found.interface, found.ca_file, found.is_verified) == ("internal", "/ca.pem", False)
