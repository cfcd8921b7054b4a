"""What goes over the wire, read by the real SDK's types in an environment of its own."""

from __future__ import annotations

import json
import os
import subprocess
from pathlib import Path
from typing import Any

import pytest

from radixchat.server.api_error import model_not_found
from radixchat.server.encode import Encoder
from radixchat.tests.server.wire_events import MODEL, every_kind

PYTHON = os.environ.get("RADIXCHAT_OPENAI_PYTHON")
SCRIPT = Path(__file__).with_name("openai_types_script.py")


def complaints(frames: list[dict[str, Any]]) -> list[dict[str, str]]:
    assert PYTHON is not None
    ran = subprocess.run(
        [PYTHON, str(SCRIPT)],
        input=json.dumps(frames),
        capture_output=True,
        text=True,
        timeout=240,
        check=True,
    )
    told = json.loads(ran.stdout)
    assert told["read"] == len(frames)
    found: list[dict[str, str]] = told["complaints"]
    return found


@pytest.mark.skipif(PYTHON is None, reason="RADIXCHAT_OPENAI_PYTHON names no Python with the SDK")
def test_the_sdks_types_read_every_event() -> None:
    """Of every kind of response, with and without a lane; and refusals. A wrong field is found."""
    frames = [
        frame
        for events in every_kind().values()
        for lane in (None, "main")
        for encoder in [Encoder(lane, False, MODEL, token_ids=True)]
        for event in events
        for frame in encoder.events(event)
    ]
    refusal = model_not_found("gpt-6", MODEL).event(event_id="e1", stream_id="main")
    assert complaints([*frames, refusal]) == []
    broken = [{**frame, "sequence_number": "first"} for frame in frames[:1]]
    assert len(complaints(broken)) == 1
