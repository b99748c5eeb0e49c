"""Response bodies for extensions, and for lists of resources that Berth does not have."""

from berth.api.codec import View


class ExtensionView(View):
    """A part of the API that was once an optional extension."""

    alias: str
    name: str
    description: str
    namespace: str
    updated: str
    links: list[str]


class ExtensionsAnswer(View):
    """The response with all extensions."""

    extensions: list[ExtensionView]


class ExtensionAnswer(View):
    """The response with one extension."""

    extension: ExtensionView


class VolumesAnswer(View, rename={"attachments": "volumeAttachments"}):
    """The response with the empty list of a server's volumes."""

    attachments: list[str]


class PasswordAnswer(View):
    """The response with the empty password of a server."""

    password: str


class AddressesAnswer(View):
    """The response with the networks of a server, each with an empty list of addresses."""

    addresses: dict[str, list[str]]


class InterfacesAnswer(View, rename={"attachments": "interfaceAttachments"}):
    """The response with the empty list of a server's network interfaces."""

    attachments: list[str]


class SecurityGroupsAnswer(View):
    """The response with the security groups of a server."""

    security_groups: list[str]
