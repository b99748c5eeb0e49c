"""Response bodies of resources that Berth does not have, and of the list of extensions."""

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
    """All extensions."""

    extensions: list[ExtensionView]


class ExtensionAnswer(View):
    """One extension."""

    extension: ExtensionView


class KeypairsAnswer(View):
    """The empty list of key pairs."""

    keypairs: list[str]


class VolumesAnswer(View, rename={"attachments": "volumeAttachments"}):
    """The empty list of a server's volumes."""

    attachments: list[str]


class AddressesAnswer(View):
    """The empty map of a server's addresses."""

    addresses: dict[str, str]


class InterfacesAnswer(View, rename={"attachments": "interfaceAttachments"}):
    """The empty list of a server's network interfaces."""

    attachments: list[str]
