"""`JsonLine`: an answer over HTTP that is one JSON value, on a line that ends. Knows no route."""

from __future__ import annotations

from typing import Any

from starlette.responses import JSONResponse


class JsonLine(JSONResponse):
    """As starlette's, with a newline: a shell's prompt does not stand behind it then."""

    def render(self, content: Any) -> bytes:
        """The bytes of the body."""
        return super().render(content) + b"\n"
