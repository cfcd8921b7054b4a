"""What is installed, under which names, and what an import costs."""

from __future__ import annotations

import contextlib
import re
import shutil
import subprocess
import sys
import tomllib
import zipfile
from importlib import metadata
from itertools import chain
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[1]


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> zipfile.ZipFile:
    """The built wheel, from a copy of the sources so that nothing is left in the checkout."""
    copy = tmp_path_factory.mktemp("sources") / "radixchat"
    ignored = shutil.ignore_patterns(".*", "__pycache__", "*.egg-info", "build", "dist")
    shutil.copytree(ROOT, copy, ignore=ignored)
    build = "from setuptools import build_meta; print(build_meta.build_wheel('.'))"
    done = subprocess.run(
        [sys.executable, "-c", build], cwd=copy, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    return zipfile.ZipFile(next(copy.glob("*.whl")))


def test_the_wheel_holds_one_top_level_name(wheel: zipfile.ZipFile) -> None:
    """Everything is under radixchat; a bare `kernels` would break transformers."""
    top = {name.split("/")[0] for name in wheel.namelist()}
    assert {name for name in top if not name.endswith(".dist-info")} == {"radixchat"}


def test_the_wheel_holds_every_source_file(wheel: zipfile.ZipFile) -> None:
    """No package is forgotten in pyproject.toml."""
    folders = ("radix", "kernels", "engine", "server", "chat_cli", "bench", "tests")
    expected = {
        f"radixchat/{path.relative_to(ROOT).as_posix()}"
        for folder in folders
        for path in (ROOT / folder).rglob("*.py")
    }
    assert expected <= set(wheel.namelist())


def test_the_protocol_imports_without_heavy_packages() -> None:
    """A client that only speaks the protocol needs the standard library."""
    code = (
        "import sys, radixchat.server.protocol as p\n"
        "third_party = {m.split('.')[0] for m in sys.modules} - sys.stdlib_module_names\n"
        "print(sorted(third_party & {'torch', 'numpy', 'transformers', 'sqlite_utils', 'click'}))"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"


def test_our_kernels_folder_does_not_hide_a_package_of_that_name() -> None:
    """transformers imports in the checkout's root, where `kernels` is a folder."""
    done = subprocess.run(
        [sys.executable, "-c", "import transformers, transformers.models.llama.modeling_llama"],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr


def test_constraints_pin_every_direct_dependency() -> None:
    """What pyproject.toml asks for, constraints.txt pins; torch to the build that is tested.

    Triton has a bound only, within which torch's own builds choose.
    """
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    extras = project["optional-dependencies"]
    # The peer of a benchmark is whichever version somebody has: it is never installed with ours.
    ours = [extras[name] for name in extras.keys() - {"peer"}]
    asked = list(chain(project["dependencies"], *ours))
    names = {item.split(">")[0].split("=")[0].strip().lower().replace("_", "-") for item in asked}
    lines = (ROOT / "constraints.txt").read_text(encoding="utf-8").splitlines()
    pinned = {line.split("==")[0].lower().replace("_", "-") for line in lines if "==" in line}
    assert names - {"setuptools", "triton"} <= pinned
    assert any(line.startswith("triton<=") for line in lines)
    assert "torch==2.13.0" in lines


def test_what_the_server_imports_is_asked_for() -> None:
    """A fresh environment has every module that `radixchat serve` loads, also through others."""
    code = (
        "import sys, radixchat.server.serve\n"
        "from importlib.metadata import packages_distributions\n"
        "owners = packages_distributions()\n"
        "for module in {name.split('.')[0] for name in sys.modules} - sys.stdlib_module_names:\n"
        "    print(*owners.get(module, ()))"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    loaded = {_plain(name) for name in done.stdout.split()} - {"radixchat"}
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    assert "uvicorn" in loaded
    assert loaded - _brought_by(project["dependencies"]) == set()


def _brought_by(requirements: list[str]) -> set[str]:
    """Names of the distributions that these bring, themselves included, as they are installed."""
    found: set[str] = set()
    todo = list(requirements)
    while todo:
        name = _plain(todo.pop())
        with contextlib.suppress(metadata.PackageNotFoundError):  # for another Python or system
            if name not in found:
                asked = metadata.requires(name) or []
                todo += [item for item in asked if "extra ==" not in item]
                found.add(name)
    return found


def _plain(requirement: str) -> str:
    """The name in a requirement, as names are compared."""
    return re.split(r"[^\w.-]", requirement, maxsplit=1)[0].lower().replace("_", "-")
