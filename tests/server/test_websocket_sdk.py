"""The real `openai` SDK comes back by itself to a server that was restarted."""

from __future__ import annotations

import os
import signal
import subprocess
from pathlib import Path

import pytest

from radixchat.tests.server.server_process import PATIENCE_S, free_port, serving
from radixchat.tests.tiny_model import endless_model_directory

SCRIPT = Path(__file__).with_name("openai_reconnect_script.py")


@pytest.mark.slow
def test_the_sdk_comes_back_after_a_restart(tmp_path: Path) -> None:
    """Drained, closed with 1012, started again: the same connection goes on with the turn."""
    python = os.environ.get("RADIXCHAT_OPENAI_PYTHON")
    if python is None:
        pytest.skip("RADIXCHAT_OPENAI_PYTHON names no Python that has the openai package")
    model = endless_model_directory(tmp_path / "model", 1024)
    port = str(free_port())
    with serving(model, tmp_path, "--port", port) as server:
        user = subprocess.Popen(
            [python, str(SCRIPT), f"{server.url}/v1"],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )
        assert user.stdout is not None
        first = user.stdout.readline().strip()
        assert first.startswith("resp_"), user.communicate()[1]
        server.tell(signal.SIGTERM)
        assert server.code() == 0
    with serving(model, tmp_path, "--port", port), user:
        said, errors = user.communicate("go on\n", timeout=PATIENCE_S)
        assert user.returncode == 0, errors
        length, came_back = said.split(" ", 1)
        assert int(length) > 0
        assert "1012" in came_back
