"""The settings of consoles in browsers, and the page that shows them."""

from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from starlette.exceptions import HTTPException
from starlette.staticfiles import StaticFiles
from starlette.types import ASGIApp, Receive, Scope, Send

from berth.api.answers import send_error
from berth.api.errors import HttpError

NOVNC: Final = "/novnc"
"""The path under which the files of noVNC are served."""
NOVNC_PAGE: Final = f"{NOVNC}/vnc_lite.html"


@dataclass(frozen=True, slots=True)
class ConsoleParts:
    """The settings of consoles.

    `token_lifetime_s` is the time in seconds for which a URL is valid. `novnc_url` is the page of
    noVNC. `novnc_dir` is the folder of noVNC's files, which the API serves; None if it serves none.
    Browsers may connect from pages of `allowed_origins` (`https://HOST:PORT`), of the host of
    `novnc_url`, and of the API's own host.
    """

    token_lifetime_s: float = 600.0
    novnc_url: str | None = None
    novnc_dir: Path | None = None
    allowed_origins: tuple[str, ...] = ()


def novnc_files(folder: Path) -> ASGIApp:
    """Return an application that serves the files of noVNC, and answers 404 for all others."""
    files: Callable[[Scope, Receive, Send], Awaitable[None]] = StaticFiles(directory=folder)

    async def serve(scope: Scope, receive: Receive, send: Send) -> None:
        try:
            await files(scope, receive, send)
        except HTTPException as error:
            text = "noVNC has no such file, or its files allow no such method."
            await send_error(scope, send, HttpError(error.status_code, text))

    return serve
