"""The web page at `/`: its files, and the headers that let it load and reach nothing else.

Owns the files of `web/`, read once. Knows no conversation and no engine: the page is a client like
any other. Its files hold nothing secret, so whoever comes gets them.
"""

from __future__ import annotations

import functools
import hashlib
from dataclasses import dataclass
from pathlib import Path

from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from radixchat.server.api_error import ApiError
from radixchat.server.json_line import JsonLine

FOLDER = Path(__file__).with_name("web")
INDEX = "index.html"
# Plain types by ending; a file of another kind does not belong there.
TYPES = {
    ".html": "text/html; charset=utf-8",
    ".css": "text/css; charset=utf-8",
    ".js": "text/javascript; charset=utf-8",
    ".svg": "image/svg+xml",
}
# Everything from this server, nothing in the markup itself, and no string becomes markup: a text
# of a model that got into it would find no way to run, to load or to send anything.
CONTENT_SECURITY_POLICY = "; ".join(
    (
        "default-src 'none'",
        "script-src 'self'",
        "style-src 'self'",
        "img-src 'self'",
        "connect-src 'self'",
        "base-uri 'none'",
        "form-action 'none'",
        "frame-ancestors 'none'",
        "require-trusted-types-for 'script'",
        "trusted-types 'none'",
    )
)
HEADERS = {
    "content-security-policy": CONTENT_SECURITY_POLICY,
    "cross-origin-opener-policy": "same-origin",
    "cross-origin-resource-policy": "same-origin",
    "permissions-policy": "camera=(), geolocation=(), microphone=()",
    "referrer-policy": "no-referrer",
    "x-content-type-options": "nosniff",
    "x-frame-options": "DENY",
    "cache-control": "no-cache",  # asked each time, sent only if it has changed
}


@dataclass(frozen=True, slots=True)
class PageFile:
    """One file of the page, as it is sent. tag: changes with its content."""

    content: bytes
    media_type: str
    tag: str


@functools.cache
def page_files() -> dict[str, PageFile]:
    """The files of the page by name; they are read once, so a page is always of one piece."""
    files = {}
    for path in sorted(FOLDER.iterdir()):
        content = path.read_bytes()
        tag = f'"{hashlib.sha256(content).hexdigest()[:32]}"'
        files[path.name] = PageFile(content, TYPES[path.suffix], tag)
    return files


def web_routes() -> tuple[Route, ...]:
    """`/` and `/web/<file>`; open to whoever comes."""
    return (Route("/", index), Route("/web/{name}", file))


async def index(request: Request) -> Response:
    """The page itself."""
    return _respond(request, page_files()[INDEX])


async def file(request: Request) -> Response:
    """One of its files."""
    found = page_files().get(request.path_params["name"])
    if found is None:
        missing = ApiError(404, "not_found", f"there is nothing at {request.url.path!r}")
        return JsonLine(missing.body(), 404, HEADERS)
    return _respond(request, found)


def _respond(request: Request, found: PageFile) -> Response:
    headers = {**HEADERS, "etag": found.tag}
    known = request.headers.get("if-none-match", "").split(",")
    if found.tag in (tag.strip().removeprefix("W/") for tag in known):
        return Response(status_code=304, headers=headers)
    return Response(found.content, media_type=found.media_type, headers=headers)
