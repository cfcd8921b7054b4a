"""The shape of the source: who may import whom, how long things get, what is written about them."""

from __future__ import annotations

import ast
import statistics
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[1]
PACKAGES = ("radix", "kernels", "engine", "server", "chat_cli", "bench")

# What each package may import at module level besides the standard library. "radixchat.x" admits
# that package or module and what is below it.
ALLOWED: dict[str, set[str]] = {
    "radix": {"numpy", "radixchat.radix"},
    "kernels": {"numpy", "torch", "triton", "numba", "llvmlite", "radixchat.kernels"},
    "engine": {
        "numpy",
        "torch",
        "transformers",
        "tokenizers",
        "safetensors",
        "huggingface_hub",
        "llguidance",
        "jinja2",
        "platformdirs",
        "google_crc32c",
        "radixchat.radix",
        "radixchat.kernels.ops",
        "radixchat.engine",
    },
    "server": {
        "prometheus_client",
        "pydantic",
        "starlette",
        "uvicorn",
        "websockets",
        "sqlite_utils",
        "ulid",
        "radixchat.engine",
        "radixchat.server",
    },
    "chat_cli": {
        "websockets",
        "rich",
        "prompt_toolkit",
        "click",
        "platformdirs",
        "pyperclip",
        "wcwidth",
        "markdown_it",
        "radixchat.server.event_reader",
        "radixchat.server.heading",
        "radixchat.server.protocol",
        "radixchat.server.limits",
        "radixchat.server.local_principal",
        "radixchat.server.message",
        "radixchat.server.model_name",
        "radixchat.server.serve_settings",
        "radixchat.server.serving",
        "radixchat.server.view_reader",
        "radixchat.server.wire_client_events",
        "radixchat.server.wire_input",
        "radixchat.server.wire_session",
        "radixchat.server.wire_value",
        "radixchat.bench.main",  # names the benchmarks and imports none
        "radixchat.chat_cli",
    },
}
# Inside a function, so that the command line starts without torch: the in-process service, and the
# model files that `radixchat models` manages. And what is an extra.
ALLOWED_LAZILY = {
    "engine": {"cryptography"},
    "chat_cli": {
        "radixchat.server.conversation_reader",
        "radixchat.server.local",
        "radixchat.server.serve",
        "radixchat.server.serve_check",
        "radixchat.server.key_file",
        "radixchat.server.key_store",
        "radixchat.server.log_format",
        "radixchat.server.new_file",
        "radixchat.server.rows",
        "radixchat.server.store",
        "radixchat.server.store_look",
        "radixchat.server.store_thread",
        "radixchat.server.stored_conversations",
        "radixchat.server.host",
        "radixchat.server.service",
        "radixchat.engine.cores",
        "radixchat.engine.gpus",
        "radixchat.engine.model_store",
        "radixchat.engine.tiers.disk_administration",
        "radixchat.engine.tiers.disk_forgetting",
        "radixchat.engine.trial",
        "radixchat.engine.warm_up",
    },
}
# One thread owns every mutable thing; these modules are where threads and loops meet.
ONLY_IN: dict[str, set[str]] = {
    "threading": {"engine/thread.py"},
    "queue": {"engine/thread.py"},
    "concurrent": {
        "engine/grammar.py",
        "engine/tiers/disk_store.py",
        "engine/tiers/page_reader.py",
        "engine/tiers/page_writer.py",
        "server/store_thread.py",
        "chat_cli/loading_thread.py",
    },
    "asyncio": {"engine/thread.py", "server", "chat_cli", "bench"},
}
BANNED_NAMES = {"utils", "util", "common", "helpers", "helper", "misc"}

MAX_FILE, MEDIAN_FILE = 400, 120
MAX_FUNCTION, P95_FUNCTION = 60, 40
# Path (or path::function) -> why it may be longer.
EXEMPT: dict[str, str] = {
    "server/migrations.py::m001_initial": "one literal: the first schema, column by column",
}


def sources(*packages: str) -> list[Path]:
    return sorted(p for package in packages for p in (ROOT / package).rglob("*.py"))


def relative(path: Path) -> str:
    return path.relative_to(ROOT).as_posix()


def imports(tree: ast.AST) -> Iterator[tuple[str, bool]]:
    """Every imported module with whether it is imported inside a function."""

    def visit(node: ast.AST, lazy: bool) -> Iterator[tuple[str, bool]]:
        if isinstance(node, ast.Import):
            yield from ((alias.name, lazy) for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, "relative imports are not used"
            assert node.module is not None
            if node.module.startswith("radixchat") and node.module.count(".") < 2:
                yield from ((f"{node.module}.{alias.name}", lazy) for alias in node.names)
            else:
                yield node.module, lazy
        inside = lazy or isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)
        if isinstance(node, ast.If):
            inside |= ast.unparse(node.test) == "TYPE_CHECKING"
        for child in ast.iter_child_nodes(node):
            yield from visit(child, inside)

    return visit(tree, False)


def admits(allowed: set[str], module: str) -> bool:
    return any(module == name or module.startswith(name + ".") for name in allowed)


@pytest.mark.parametrize("package", sorted(ALLOWED))
def test_imports_point_down(package: str) -> None:
    """A package imports what the layout allows, and nothing above it."""
    for path in sources(package):
        for module, lazy in imports(ast.parse(path.read_text(encoding="utf-8"))):
            root = module.split(".")[0]
            allowed = ALLOWED[package] | (ALLOWED_LAZILY.get(package, set()) if lazy else set())
            if root not in sys.stdlib_module_names:
                assert admits(allowed, module), f"{relative(path)} imports {module}"
            if root in ONLY_IN:
                places = ONLY_IN[root]
                here = relative(path)
                assert here in places or here.split("/")[0] in places, f"{here} imports {root}"


def test_files_and_functions_stay_small() -> None:
    """File and function sizes keep their bounds; an exemption that is not needed must go."""
    file_sizes, function_sizes, used = {}, {}, set()
    for path in sources(*PACKAGES):
        text = path.read_text(encoding="utf-8")
        file_sizes[relative(path)] = text.count("\n")
        for node in ast.walk(ast.parse(text)):
            if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
                assert node.end_lineno is not None
                name = f"{relative(path)}::{node.name}"
                function_sizes[name] = node.end_lineno - node.lineno + 1
    for name, size in (*file_sizes.items(), *function_sizes.items()):
        limit = MAX_FUNCTION if "::" in name else MAX_FILE
        if size > limit:
            assert name in EXEMPT, f"{name} has {size} lines, more than {limit}"
            used.add(name)
    assert used == set(EXEMPT)
    assert statistics.median(file_sizes.values()) <= MEDIAN_FILE
    assert statistics.quantiles(function_sizes.values(), n=20)[-1] <= P95_FUNCTION


def test_every_module_says_what_it_is() -> None:
    """Each source and test module opens with a docstring and is named for a thing."""
    for path in sources(*PACKAGES, "tests"):
        assert ast.get_docstring(ast.parse(path.read_text(encoding="utf-8"))), relative(path)
        assert not BANNED_NAMES & set(path.with_suffix("").parts), relative(path)


def test_packages_hold_no_code_in_their_init() -> None:
    """An __init__ is a docstring; kernels has none, to yield to a package of that name."""
    for package in (*PACKAGES, "tests"):
        init = ROOT / package / "__init__.py"
        assert init.exists() == (package != "kernels")
        if init.exists():
            assert len(ast.parse(init.read_text(encoding="utf-8")).body) == 1, package
        assert (ROOT / ".types" / "radixchat" / package).resolve() == ROOT / package
