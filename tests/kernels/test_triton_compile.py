"""Every Triton kernel compiles for the GPUs it is meant for, within what a block of them has."""

from __future__ import annotations

import ast
from pathlib import Path

import pytest

from radixchat.tests.kernels.compiled import (
    CAPABILITIES,
    KernelCase,
    Usage,
    case_modules,
    cases,
    compile_cases,
)

KERNELS = Path(__file__).parents[2] / "kernels"


def launched_kernels() -> set[tuple[str, str]]:
    """(module, kernel) of all functions under @triton.jit that are called <something>_kernel."""
    return {
        (path.stem, node.name)
        for path in KERNELS.glob("triton_*.py")
        for node in ast.parse(path.read_text(encoding="utf-8")).body
        if isinstance(node, ast.FunctionDef)
        and node.name.endswith("_kernel")
        and any("triton.jit" in ast.unparse(decorator) for decorator in node.decorator_list)
    }


@pytest.mark.parametrize("module", case_modules())
def test_kernels_fit_their_gpus(module: str) -> None:
    """No case spills, takes too many registers, or more shared memory than a block may have."""
    listed = [(case, capability) for case in cases(module) for capability in CAPABILITIES]
    used = compile_cases(module)
    for (case, capability), usage in zip(listed, used, strict=True):
        print(usage)  # noqa: T201 - pytest -rP shows what each kernel takes
        assert (usage.name, usage.capability) == (case.name, capability)
        usage.check(case)


def test_every_kernel_has_a_case() -> None:
    """A kernel that nobody compiles is found here."""
    covered = {(case.module, case.kernel) for name in case_modules() for case in cases(name)}
    assert launched_kernels() == covered


@pytest.mark.parametrize(
    "used",
    [
        Usage("k", 80, 128, 65, 0, 0, 0),
        Usage("k", 80, 2048, 64, 0, 0, 0),
        Usage("k", 80, 128, 64, 4, 0, 0),
        Usage("k", 80, 128, 64, 0, 0, 163 * 1024 + 1),
    ],
)
def test_too_much_is_refused(used: Usage) -> None:
    """The check fails for a register, a block's registers, a spilt or a shared byte too many."""
    case = KernelCase("module", "k", {}, registers=64)
    Usage("k", 90, 128, 64, 0, 0, 163 * 1024 + 1).check(case)
    with pytest.raises(AssertionError, match="sm_80 k"):
        used.check(case)
