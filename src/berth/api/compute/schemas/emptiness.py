"""Lists of what Berth has none of."""

from berth.api.codec import View


class ExtensionView(View):
    """A part of the API that was once an extension of it."""

    alias: str
    name: str
    description: str
    namespace: str
    updated: str
    links: list[str]


class ExtensionsAnswer(View):
    """All of them."""

    extensions: list[ExtensionView]


class ExtensionAnswer(View):
    """One of them."""

    extension: ExtensionView


class KeypairsAnswer(View):
    """No key pairs."""

    keypairs: list[str]


class VolumesAnswer(View, rename={"attachments": "volumeAttachments"}):
    """No volumes."""

    attachments: list[str]


class AddressesAnswer(View):
    """No addresses."""

    addresses: dict[str, str]


class InterfacesAnswer(View, rename={"attachments": "interfaceAttachments"}):
    """No interfaces."""

    attachments: list[str]
