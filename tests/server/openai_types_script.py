"""Reads frames and objects from stdin with the openai package's own types, as strictly as they go.

Run by `test_openai_types.py` with the Python of an environment that has the SDK; it needs no other
module of this project. Prints one JSON line: how many were read, and what is wrong with which.

The SDK itself never checks what a server sends, so a type that is wrong shows only where a user's
program trips over it. One list of words is open in OpenAI's API and ours has more of them.
"""

from __future__ import annotations

import importlib
import json
import sys
from typing import Any

from pydantic import TypeAdapter, ValidationError

# By name: where this project's types are checked, the SDK is not installed.
construct_type_unchecked: Any = importlib.import_module("openai._models").construct_type_unchecked
responses: Any = importlib.import_module("openai.types.responses")
EVENTS: TypeAdapter[Any] = TypeAdapter(responses.ResponsesServerEvent)
OUR_REASONS = {"interrupted", "context_length", "deadline", "server_shutdown"}


def without_our_reason(frame: dict[str, Any]) -> dict[str, Any]:
    """The frame with OpenAI's reason in place of ours."""
    response: dict[str, Any] = frame.get("response", {})
    details = response.get("incomplete_details")
    if details is None or details["reason"] not in OUR_REASONS:
        return frame
    changed = {**details, "reason": "max_output_tokens"}
    return {**frame, "response": {**response, "incomplete_details": changed}}


def complaint(frame: dict[str, Any]) -> str | None:
    """What the SDK's types have against a frame."""
    try:
        event = EVENTS.validate_python(without_our_reason(frame))
    except ValidationError as error:
        # Of the events of other types it is the type that does not fit.
        of_this = [entry for entry in error.errors() if entry["loc"][-1] != "type"]
        return str((of_this or error.errors())[:3])
    loose: Any = construct_type_unchecked(value=frame, type_=responses.ResponsesServerEvent)
    if type(loose) is not type(event):
        return f"the SDK makes a {type(loose).__name__} of it, strictly a {type(event).__name__}"
    if event.type != frame["type"]:
        return f"read as {event.type}"
    output = frame.get("response", {}).get("output")
    if output and loose.response.output_text != output[0]["content"][0]["text"]:
        return "output_text is another"
    return None


def main() -> None:
    """One list of frames in, one object out."""
    frames = json.load(sys.stdin)
    complaints = [
        {"type": frame["type"], "complaint": found}
        for frame in frames
        if (found := complaint(frame)) is not None
    ]
    print(json.dumps({"read": len(frames), "complaints": complaints}))  # noqa: T201 - its answer


if __name__ == "__main__":
    main()
