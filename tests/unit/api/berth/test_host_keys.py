"""The keys of hosts over HTTP: enrolment, exchange, rotation and revocation."""

import base64

from tests.unit.api.cloud import Stack

PATH = "/berth/v1/host-keys"
KEY = base64.b64encode(bytes(range(32))).decode()


async def test_a_token_becomes_a_key_once() -> None:
    """A token is exchanged for a key without other credentials, and is then worthless."""
    cloud = Stack()
    await cloud.start()
    made = await cloud.ask("POST", f"{PATH}/host-9/token", {"life_s": 60})
    assert made.status == 200
    token = made.body["token"]
    assert token not in str((await cloud.ask("GET", PATH)).body)
    body = {"token": token, "public_key": KEY}
    wrong = await cloud.ask("PUT", f"{PATH}/host-8", body)
    assert (wrong.status, "berth host enroll" in str(wrong.body)) == (403, True)
    accepted = await cloud.ask("PUT", f"{PATH}/host-9", body)
    assert (accepted.status, accepted.body) == (200, {"control_keys": []})
    assert (await cloud.ask("PUT", f"{PATH}/host-9", body)).status == 403
    (found,) = (await cloud.ask("GET", PATH)).body["host_keys"]
    assert (found["host"], found["state"], found["keys"]) == ("host-9", "valid", [KEY])


async def test_a_key_is_rotated_and_revoked() -> None:
    """The state of a key follows what an administrator asks for."""
    cloud = Stack()
    await cloud.start()
    assert (await cloud.ask("POST", f"{PATH}/host-9/rotate")).status == 404
    assert (await cloud.ask("DELETE", f"{PATH}/host-9")).status == 404
    token = (await cloud.ask("POST", f"{PATH}/host-9/token", {})).body["token"]
    assert (await cloud.ask("POST", f"{PATH}/host-9/rotate")).status == 409
    await cloud.ask("PUT", f"{PATH}/host-9", {"token": token, "public_key": KEY})
    assert (await cloud.ask("POST", f"{PATH}/host-9/rotate")).status == 204
    (found,) = (await cloud.ask("GET", PATH)).body["host_keys"]
    assert found["state"] == "rotating"
    assert (await cloud.ask("DELETE", f"{PATH}/host-9")).status == 204
    (found,) = (await cloud.ask("GET", PATH)).body["host_keys"]
    assert (found["state"], found["keys"]) == ("revoked", [])
