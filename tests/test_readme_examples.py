"""README's examples of scripts do what they say, line by line. Knows no answer."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from radixchat.tests.readme import README, block
from radixchat.tests.server.server_process import environment
from radixchat.tests.tiny_model import endless_model_directory

ANSWER = "Hi:\n```python\nprint(1)\n```\n"
PATIENCE_S = 120.0


@pytest.mark.slow
@pytest.mark.timeout(1800)
@pytest.mark.usefixtures("compiled")
def test_the_examples_of_scripts(tmp_path: Path) -> None:
    """Each line succeeds, in this order, and leaves the files that it names.

    The model is a tiny one that has to give one answer, so that no line depends on words.
    """
    model = endless_model_directory(tmp_path / "tiny", 4096)
    folder = tmp_path / "folder"
    folder.mkdir()
    (folder / "letter.txt").write_text("Dear all,\nall is well.\n", encoding="utf-8")
    ours = {
        "PATH": os.pathsep.join([str(Path(sys.executable).parent), os.environ["PATH"]]),
        "RADIXCHAT_MODEL": str(model),
        "RADIXCHAT_THREADS": "1",
        "RADIXCHAT_REGEX": ANSWER.replace("(", r"\(").replace(")", r"\)"),
    }
    outputs = {}
    for line in block(README.read_text(encoding="utf-8"), "scripts").splitlines():
        done = subprocess.run(
            ["bash", "-o", "pipefail", "-c", line],
            cwd=folder,
            env=environment(tmp_path) | ours,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            encoding="utf-8",
            check=False,
            timeout=PATIENCE_S,
        )
        # `head` goes away before the answer is complete, or after it.
        assert done.returncode in ((0, 141) if "| head" in line else (0,)), (line, done.stderr)
        outputs[line.split("  #")[0].rstrip()] = done.stdout
    assert outputs['radixchat chat "What is a radix tree?"'] == ANSWER + "\n"
    assert outputs['radixchat chat -c /bogus || echo "exit code $?"'] == "exit code 1\n"
    assert "talk" in outputs["radixchat sessions list"]
    assert (folder / "greet.py").read_text(encoding="utf-8") == "print(1)\n"
    assert "Say it shorter." in (folder / "talk.md").read_text(encoding="utf-8")
    assert json.loads((folder / "turn.json").read_text(encoding="utf-8"))["output_text"] == ANSWER
    assert json.loads((folder / "talk.json").read_text(encoding="utf-8"))["messages"]
    assert json.loads((folder / "doctor.json").read_text(encoding="utf-8"))
