"""The real `openai` SDK, in an environment of its own, against a server of its own.

It is made for the test, unless RADIXCHAT_OPENAI_PYTHON names a Python that has the SDK.
"""

from __future__ import annotations

import ast
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from radixchat.tests.server.server_process import command, serving

# Its `realtime` extra needs websockets below 16, and the server another: hence the environment.
OPENAI = "openai[realtime]==3.57.0"
SCRIPT = Path(__file__).with_name("openai_sdk_script.py")
_UNREACHABLE = re.compile(r"NewConnectionError|name resolution|timed out|unreachable|ProxyError")
_PATIENCE_S = 200  # for the environment
_CHECKS_S = 300  # 15 on two idle cores


@pytest.fixture(scope="session")
def openai_python(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A Python that has the SDK."""
    if (given := os.environ.get("RADIXCHAT_OPENAI_PYTHON")) is not None:
        return Path(given)
    folder = tmp_path_factory.mktemp("openai")
    python = folder / "bin" / "python"
    subprocess.run([sys.executable, "-m", "venv", str(folder)], check=True, timeout=_PATIENCE_S)
    install = [str(python), "-m", "pip", "install", "--disable-pip-version-check", "-q", OPENAI]
    done = subprocess.run(install, capture_output=True, text=True, check=False, timeout=_PATIENCE_S)
    if done.returncode != 0 and _UNREACHABLE.search(done.stderr):
        pytest.skip(f"the package index cannot be reached: {done.stderr.strip()[-300:]}")
    assert done.returncode == 0, done.stderr
    return python


@pytest.mark.slow
@pytest.mark.model
@pytest.mark.timeout(900)
def test_the_real_sdk_works_unchanged(
    openai_python: Path, default_model: Path, tmp_path: Path
) -> None:
    """Every check of the script holds: responses over the socket and HTTP, chat, tools, errors."""
    code, key, said = command("keys", "add", "sdk", folder=tmp_path)
    assert code == 0, said
    with serving(default_model, tmp_path) as server:
        script = [str(openai_python), "-u", str(SCRIPT), f"{server.url}/v1", key.strip()]
        try:
            done = subprocess.run(
                script, capture_output=True, text=True, check=False, timeout=_CHECKS_S
            )
        except subprocess.TimeoutExpired as late:
            held = (late.stdout or b"").decode()
            pytest.fail(f"a check never ends; these held:\n{held}\n{server.stderr[-3000:]}")
        sys.stdout.write(done.stdout)
        assert done.returncode == 0, done.stderr
        assert "Traceback" not in server.stderr
    assert len(re.findall(r"^ok  ", done.stdout, re.MULTILINE)) == number_of_checks() > 15


def number_of_checks() -> int:
    """As the script lists them; it cannot be imported where the SDK is not."""
    for node in ast.parse(SCRIPT.read_text(encoding="utf-8")).body:
        if isinstance(node, ast.Assign) and ast.unparse(node.targets[0]) == "CHECKS":
            assert isinstance(node.value, ast.Tuple)
            return len(node.value.elts)
    raise AssertionError("the script lists no checks")
