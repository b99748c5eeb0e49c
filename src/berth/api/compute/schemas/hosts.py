"""Request and response bodies for hosts, which exist before microversion 2.43."""

from enum import StrEnum

from berth.api.codec import UNSET, Model, UnsetType, View


class Switch(StrEnum):
    """Whether to switch something on or off, in the spellings that Nova accepts."""

    ENABLE = "enable"
    DISABLE = "disable"
    ENABLE_TITLE = "Enable"
    DISABLE_TITLE = "Disable"
    ENABLE_UPPER = "ENABLE"
    DISABLE_UPPER = "DISABLE"

    @property
    def is_on(self) -> bool:
        """Whether the value switches on."""
        return self.value.lower() == Switch.ENABLE.value


class HostsQuery(Model):
    """The availability zone of the hosts to list."""

    zone: str | None = None


class HostLine(View):
    """A host in a list."""

    host_name: str
    service: str
    zone: str


class HostsAnswer(View):
    """The response with all hosts whose service is enabled."""

    hosts: list[HostLine]


class HostResource(View):
    """Resources of a host: its total, its usage, or the sum of a project's servers."""

    host: str
    project: str
    cpu: int
    memory_mb: int
    disk_gb: int


class HostResourceLine(View):
    """Resources of a host, nested as in Nova."""

    resource: HostResource


class HostAnswer(View):
    """The response that shows the resources of one host: in total, in use, and for each project."""

    host: list[HostResourceLine]


class HostChange(Model):
    """Body of PUT /os-hosts/{host_name}."""

    status: Switch | UnsetType = UNSET
    maintenance_mode: Switch | UnsetType = UNSET


class HostChanged(View):
    """The response to a change of a host."""

    host: str
    status: str
