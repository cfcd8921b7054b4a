"""Torch's library is in the process before torch is imported, and torch is the same as ever."""

from __future__ import annotations

import subprocess
import sys

import pytest

_PROGRAM = """
import sys
from pathlib import Path
from radixchat.chat_cli.torch_library import map_torch_library

map_torch_library()
assert "torch" not in sys.modules
assert "libtorch_cpu.so" in Path("/proc/self/maps").read_text()
import torch

print(int(torch.ones(2, 3).sum()))
"""


@pytest.mark.skipif(sys.platform != "linux", reason="elsewhere the import maps it")
def test_it_is_mapped() -> None:
    """Alone, and with what the import of torch expects of it."""
    done = subprocess.run(
        [sys.executable, "-c", _PROGRAM], capture_output=True, text=True, check=False, timeout=60
    )
    assert (done.stdout, done.stderr) == ("6\n", "")
