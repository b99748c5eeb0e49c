"""Extensions, which all are parts of the API by now."""

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
