"""Extra specs of flavors."""

from berth.api.codec import encode_text
from berth.api.compute.handlers.flavors import visible_flavor
from berth.api.compute.schemas.flavors import OneSpec, SpecsAnswer, SpecsBody
from berth.api.routing import Answer, Call
from berth.domain.errors import InvalidInputError, NotFoundError


async def list_extra_specs(call: Call) -> Answer:
    """List the extra specs of a flavor."""
    flavor = await visible_flavor(call)
    return Answer(SpecsAnswer(extra_specs=dict(flavor.extra_specs)))


async def create_extra_specs(call: Call) -> Answer:
    """Add or overwrite extra specs of a flavor."""
    specs = _texts(call.body(SpecsBody).extra_specs)
    await call.parts.flavors.set_extra_specs(call.key("flavor_id"), specs)
    return Answer(SpecsAnswer(extra_specs=specs))


async def show_extra_spec(call: Call) -> Answer:
    """Show one extra spec of a flavor."""
    flavor = await visible_flavor(call)
    key = call.key("key")
    if key not in flavor.extra_specs:
        raise NotFoundError("extra spec", key)
    return Answer({key: flavor.extra_specs[key]})


async def update_extra_spec(call: Call) -> Answer:
    """Add or overwrite one extra spec of a flavor."""
    specs = _texts(call.body(OneSpec))
    key = call.key("key")
    if key not in specs:
        raise InvalidInputError("body", f"must have the one key {key[:80]!r}, as the path says")
    await call.parts.flavors.set_extra_specs(call.key("flavor_id"), specs)
    return Answer(specs)


async def delete_extra_spec(call: Call) -> Answer:
    """Remove one extra spec of a flavor."""
    await call.parts.flavors.delete_extra_spec(call.key("flavor_id"), call.key("key"))
    return Answer()


def _texts(specs: dict[str, str | int | float]) -> dict[str, str]:
    """Write numbers as the text that extra specs are."""
    return {
        key: value if isinstance(value, str) else encode_text(value) for key, value in specs.items()
    }
