"""Lists of what Berth has none of."""

from berth.api.codec import View


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
