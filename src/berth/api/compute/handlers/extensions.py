"""Extensions: names that clients look for, of parts that the API has by itself."""

from berth.api.compute.schemas.extensions import ExtensionAnswer, ExtensionsAnswer, ExtensionView
from berth.api.routing import Answer, Call
from berth.domain.errors import NotFoundError

_UPDATED = "2014-12-03T00:00:00Z"
_NAMES = {
    "OS-DCF": "DiskConfig",
    "OS-EXT-AZ": "ExtendedAvailabilityZone",
    "OS-EXT-SRV-ATTR": "ExtendedServerAttributes",
    "OS-EXT-STS": "ExtendedStatus",
    "OS-FLV-DISABLED": "FlavorDisabled",
    "OS-FLV-EXT-DATA": "FlavorExtraData",
    "OS-SCH-HNT": "SchedulerHints",
    "OS-SRV-USG": "ServerUsage",
    "os-aggregates": "Aggregates",
    "os-availability-zone": "AvailabilityZone",
    "os-flavor-extra-specs": "FlavorExtraSpecs",
    "os-flavor-manage": "FlavorManage",
    "os-flavor-rxtx": "FlavorRxtx",
    "os-hypervisors": "Hypervisors",
    "os-multiple-create": "MultipleCreate",
    "os-server-groups": "ServerGroups",
    "os-services": "Services",
    "os-used-limits": "UsedLimits",
}


async def list_extensions(call: Call) -> Answer:  # noqa: ARG001 - every handler takes a call
    """List extensions."""
    return Answer(ExtensionsAnswer(extensions=[_view(alias) for alias in _NAMES]))


async def show_extension(call: Call) -> Answer:
    """Show an extension."""
    alias = call.key("alias")
    if alias not in _NAMES:
        raise NotFoundError("extension", alias)
    return Answer(ExtensionAnswer(extension=_view(alias)))


def _view(alias: str) -> ExtensionView:
    return ExtensionView(
        alias=alias,
        name=_NAMES[alias],
        description="",
        namespace="",
        updated=_UPDATED,
        links=[],
    )
