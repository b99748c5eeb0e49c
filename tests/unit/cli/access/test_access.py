"""The precedence of options, variables, contexts and clouds."""

from collections.abc import Mapping
from pathlib import Path

import pytest

from berth.cli.access.access import DEFAULT_URL, Access, access_of
from berth.cli.access.context_file import Contexts, write_contexts
from berth.cli.failures import CommandError

CONTEXTS: Mapping[str, Mapping[str, str]] = {
    "prod": {"url": "https://prod", "user": "ann", "password_file": "/p", "ca_file": "/ca"},
    "test": {"url": "http://test", "token": "t"},
    "cloudy": {"cloud": "os"},
    "moved": {"cloud": "os", "url": "https://elsewhere"},
}
CLOUDS = """
clouds:
  os:
    auth: {auth_url: "https://ks", username: bob, password: s3same, project_name: web}
    region_name: R
    verify: false
  basic:
    auth_type: http_basic
    auth: {endpoint: "https://b/placement", username: eve, password: s3same}
    cacert: /cloud-ca
  none:
    auth_type: none
    auth: {endpoint: "https://n/v2.1"}
  admin:
    auth_type: admin_token
    auth: {endpoint: "https://a/v2.1", token: s3same}
"""


@pytest.fixture
def environ(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> dict[str, str]:
    """Return an environment with contexts and clouds, and without any other variable."""
    folder = tmp_path / "config"
    write_contexts(Contexts(folder / "berth" / "contexts.toml", None, CONTEXTS))
    (folder / "openstack").mkdir()
    (folder / "openstack" / "clouds.yaml").write_text(CLOUDS, "utf-8")
    monkeypatch.chdir(tmp_path)
    return {"XDG_CONFIG_HOME": str(folder)}


def use(environ: Mapping[str, str], name: str) -> None:
    """Make a context the current one."""
    path = Path(environ["XDG_CONFIG_HOME"]) / "berth" / "contexts.toml"
    write_contexts(Contexts(path, name, CONTEXTS))


def texts(access: Access) -> dict[str, str]:
    """Return the values without their origins."""
    return {key: one.text for key, one in access.values.items()}


def test_without_any_source_the_address_is_the_default(environ: dict[str, str]) -> None:
    """There is no account then."""
    found = access_of({}, environ)
    assert texts(found) == {"url": DEFAULT_URL}
    assert found.values["url"].origin == "default"


def test_each_source_overrides_the_next(environ: dict[str, str]) -> None:
    """Option, BERTH_* variable, context, OS_* variable."""
    environ |= {"OS_AUTH_TYPE": "none", "OS_ENDPOINT": "https://os/v2.1"}
    assert texts(access_of({}, environ)) == {"url": "https://os"}
    use(environ, "prod")
    assert access_of({}, environ).text("url") == "https://prod"
    assert access_of({}, environ).context == "prod"
    environ["BERTH_CONTEXT"] = "test"
    assert texts(access_of({}, environ)) == {"url": "http://test", "token": "t"}
    environ["BERTH_URL"] = "http://variable"
    assert texts(access_of({}, environ)) == {"url": "http://variable"}
    found = access_of({"url": "http://option"}, environ)
    assert found.values["url"].origin == "--url"
    assert texts(found) == {"url": "http://option"}
    assert access_of({"context": "prod"}, environ).text("url") == "https://prod"


def test_an_account_is_never_sent_to_another_address(environ: dict[str, str]) -> None:
    """A URL from a higher source drops the whole context, unless it is the same URL."""
    use(environ, "prod")
    assert texts(access_of({"url": "http://h"}, environ)) == {"url": "http://h"}
    assert access_of({"url": "https://prod/"}, environ).text("user") == "ann"
    environ["BERTH_URL"] = "http://h"
    found = access_of({"context": "prod"}, environ)
    assert found.text("url") == "https://prod"
    assert access_of({"os_cloud": "os", "url": "http://h"}, environ).cloud is None


def test_another_user_does_not_get_the_password_of_a_context(environ: dict[str, str]) -> None:
    """The same user keeps it, and a token replaces the whole account."""
    use(environ, "prod")
    assert "password_file" not in texts(access_of({"user": "eve"}, environ))
    assert "password_file" in texts(access_of({"user": "ann"}, environ))
    assert texts(access_of({"token": "x"}, environ)) == {
        "url": "https://prod",
        "token": "x",
        "ca_file": "/ca",
    }


def test_a_variable_may_have_the_password_of_a_named_context(environ: dict[str, str]) -> None:
    """Only if the context has none; other variables are for another address."""
    environ |= {"BERTH_PASSWORD": "p", "BERTH_USER": "eve", "BERTH_TOKEN": "x"}
    assert texts(access_of({"context": "test"}, environ)) == {
        "url": "http://test",
        "token": "t",
        "password": "p",
    }
    assert "password" not in texts(access_of({"context": "prod"}, environ))


def test_an_empty_context_disables_the_current_one(environ: dict[str, str]) -> None:
    """As an option, and as a variable."""
    use(environ, "prod")
    assert access_of({"context": ""}, environ).text("url") == DEFAULT_URL
    assert access_of({}, environ | {"BERTH_CONTEXT": ""}).text("url") == DEFAULT_URL


def test_a_cloud_with_a_catalog_is_to_be_signed_in_at(environ: dict[str, str]) -> None:
    """Its address is not known before; a context may set one."""
    for found in (
        access_of({"os_cloud": "os"}, environ),
        access_of({}, environ | {"OS_CLOUD": "os"}),
        access_of({"context": "cloudy"}, environ),
    ):
        assert found.cloud is not None
        assert found.cloud.region == "R"
        assert texts(found) == {"verify": "false"}
    moved = access_of({"context": "moved"}, environ)
    assert moved.cloud is not None
    assert moved.text("url") == "https://elsewhere"


def test_clouds_without_a_catalog_have_an_address(environ: dict[str, str]) -> None:
    """HTTP Basic sends the account, and a static token is sent as it is."""
    assert texts(access_of({"os_cloud": "basic"}, environ)) == {
        "url": "https://b",
        "user": "eve",
        "password": "s3same",
        "ca_file": "/cloud-ca",
    }
    assert texts(access_of({"os_cloud": "none"}, environ)) == {"url": "https://n"}
    assert texts(access_of({"os_cloud": "admin"}, environ)) == {
        "url": "https://a",
        "token": "s3same",
    }


def test_contradictions_and_unknown_names_are_refused(environ: dict[str, str]) -> None:
    """The errors say what to do."""
    with pytest.raises(CommandError, match="exclude each other"):
        access_of({"context": "prod", "os_cloud": "os"}, environ)
    with pytest.raises(CommandError, match="did you mean 'prod'"):
        access_of({"context": "prd"}, environ)
    with pytest.raises(CommandError, match="did you mean 'basic'"):
        access_of({"os_cloud": "basik"}, environ)


@pytest.mark.parametrize("name", ["os", "basic", "admin"])
def test_secrets_are_not_shown(environ: dict[str, str], name: str) -> None:
    """Every value has an origin, and secrets are hidden."""
    shown = access_of({"os_cloud": name}, environ).shown()
    assert "s3same" not in str(shown)
    assert "(hidden)" in [row["value"] for row in shown]
    assert all(row["origin"].startswith(f"cloud {name} (") for row in shown)


def test_a_warning_about_the_file_is_given_once(
    environ: dict[str, str], capsys: pytest.CaptureFixture[str]
) -> None:
    """The file is read once."""
    path = Path(environ["XDG_CONFIG_HOME"]) / "berth" / "contexts.toml"
    write_contexts(Contexts(path, "a", {"a": {"url": "http://a"}}))
    path.chmod(0o644)
    assert access_of({}, environ).text("url") == "http://a"
    assert capsys.readouterr().err.count("chmod 600") == 1
