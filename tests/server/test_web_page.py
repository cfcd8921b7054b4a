"""The page's files: what is sent, under which headers, and that they keep to themselves."""

from __future__ import annotations

import asyncio
import re
from html.parser import HTMLParser
from pathlib import Path

import httpx
import pytest
from starlette.applications import Starlette

from radixchat.server.web_page import FOLDER, page_files, web_routes

SCRIPTS = sorted(FOLDER.glob("*.js"))
STYLES = sorted(FOLDER.glob("*.css"))
# Ways from a string to markup, to a program, or past the policy.
FORBIDDEN = re.compile(
    r"innerHTML|outerHTML|insertAdjacentHTML|document\.write|\beval\(|new Function|srcdoc|"
    r"\.style\b|cssText|DOMParser|createContextualFragment|javascript:|document\.cookie"
)
OTHER_HOST = re.compile(r"https?://(?!www\.w3\.org/2000/svg)[a-z0-9]|@import|\burl\(")
IMPORT = re.compile(r'^(?:import .*|\} )from "\./([\w]+\.js)";$', re.MULTILINE)
MAX_LINES = 400


def get(path: str, **headers: str) -> httpx.Response:
    """What the page's routes answer."""

    async def main() -> httpx.Response:
        app = httpx.ASGITransport(Starlette(routes=list(web_routes())))
        async with httpx.AsyncClient(transport=app, base_url="http://127.0.0.1") as client:
            return await client.get(path, headers=headers)

    return asyncio.run(main())


def test_the_page_is_at_the_root() -> None:
    """`/` is the page, in UTF-8."""
    answer = get("/")
    assert answer.status_code == 200
    assert answer.headers["content-type"] == "text/html; charset=utf-8"
    assert answer.text.startswith("<!doctype html>")


@pytest.mark.parametrize("name", sorted(page_files()))
def test_every_file_is_served_under_the_policy(name: str) -> None:
    """Each file has its own type, and nothing but this server may be reached from it."""
    answer = get(f"/web/{name}")
    assert answer.status_code == 200
    assert answer.content == (FOLDER / name).read_bytes()
    policy = dict(
        part.split(" ", 1) for part in answer.headers["content-security-policy"].split("; ")
    )
    assert policy.pop("trusted-types") == "'none'"
    assert policy.pop("require-trusted-types-for") == "'script'"
    assert set(policy.values()) == {"'none'", "'self'"}
    assert policy["default-src"] == policy["frame-ancestors"] == policy["base-uri"] == "'none'"
    assert answer.headers["x-content-type-options"] == "nosniff"
    assert answer.headers["referrer-policy"] == "no-referrer"


def test_a_file_that_has_not_changed_is_not_sent_again() -> None:
    """A browser that has the page asks, and is told that it has it; never an old one for a new."""
    first = get("/web/app.js")
    again = get("/web/app.js", **{"if-none-match": f'"other", W/{first.headers["etag"]}'})
    assert (again.status_code, again.content) == (304, b"")
    assert again.headers["etag"] == first.headers["etag"]
    assert get("/web/app.js", **{"if-none-match": '"other"'}).status_code == 200


@pytest.mark.parametrize("name", ["nothing.js", "..%2Fweb_page.py", "%2e%2e%2fweb_page.py"])
def test_no_other_file_is_served(name: str) -> None:
    """What is not in the folder is not found, however it is asked for."""
    assert get(f"/web/{name}").status_code == 404


class _Index(HTMLParser):
    """What the index loads, and what stands in its markup."""

    def __init__(self) -> None:
        super().__init__()
        self.loaded: list[str] = []
        self.inline: list[str] = []
        self.ids: list[str] = []
        self.references: list[str] = []

    def handle_starttag(self, tag: str, attributes: list[tuple[str, str | None]]) -> None:
        values = dict(attributes)
        if tag == "style" or (tag == "script" and "src" not in values):
            self.inline.append(tag)
        self.inline.extend(name for name in values if name == "style" or name.startswith("on"))
        self.loaded.extend(str(values[name]) for name in ("src",) if name in values)
        if tag == "link":
            self.loaded.append(str(values["href"]))
        self.ids.extend(str(values[name]) for name in ("id",) if name in values)
        for name in (
            "aria-controls",
            "aria-labelledby",
            "aria-describedby",
            "for",
            "popovertarget",
        ):
            if name in values:
                self.references.append(str(values[name]))


@pytest.fixture(scope="module")
def index() -> _Index:
    parser = _Index()
    parser.feed((FOLDER / "index.html").read_text(encoding="utf-8"))
    return parser


def test_the_index_holds_no_script_and_no_style(index: _Index) -> None:
    """Everything it loads is a file of the folder; nothing stands in the markup itself."""
    assert index.inline == []
    assert {address.removeprefix("/web/") for address in index.loaded} <= set(page_files())
    assert len(index.ids) == len(set(index.ids))
    assert set(index.references) <= set(index.ids)


def test_every_file_is_used(index: _Index) -> None:
    """A script that nothing imports, or a style that nothing loads, does not belong there."""
    used = {"index.html", *(address.removeprefix("/web/") for address in index.loaded)}
    for path in SCRIPTS:
        used |= set(IMPORT.findall(path.read_text(encoding="utf-8")))
    assert used == set(page_files())


@pytest.mark.parametrize("path", [*SCRIPTS, *STYLES], ids=lambda path: path.name)
def test_a_file_says_what_it_is_and_reaches_nobody(path: Path) -> None:
    """It opens with what it owns, stays short, makes no markup from text, names no other host."""
    text = path.read_text(encoding="utf-8")
    assert text.startswith(("// ", "/* "))
    assert text.count("\n") <= MAX_LINES
    assert FORBIDDEN.findall(text) == []
    assert OTHER_HOST.findall(text) == []


def test_every_element_that_a_script_asks_for_is_there(index: _Index) -> None:
    """The names in the program are those in the markup."""
    program = (FOLDER / "app.js").read_text(encoding="utf-8")
    assert set(re.findall(r'byId\("([\w-]+)"\)', program)) <= set(index.ids)
