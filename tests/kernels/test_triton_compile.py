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


@pytest.mark.slow
@pytest.mark.parametrize("module", case_modules())
def test_kernels_fit_their_gpus(module: str) -> None:
    """No case spills, takes too many registers, or more shared memory than a block may have."""
    listed = [(case, capability) for case in cases(module) for capability in CAPABILITIES]
    misfits = []
    for (case, capability), usage in zip(listed, compile_cases(module), strict=True):
        print(usage)  # noqa: T201 - pytest -rP shows what each kernel takes
        assert (usage.name, usage.capability) == (case.name, capability)
        if not usage.fits(case):
            misfits.append(str(usage))
    assert not misfits


def test_one_kernel_fits_at_once() -> None:
    """The quick part of the test above: one case, for both capabilities."""
    module = "radixchat.tests.kernels.compile_cases_elementwise"
    used = compile_cases(module, most=1)
    assert [usage.capability for usage in used] == list(CAPABILITIES)
    for usage in used:
        assert usage.fits(cases(module)[0])
        assert usage.registers > 8, "read from the binary"


def test_every_kernel_has_a_case() -> None:
    """A kernel that nobody compiles is found here."""
    covered = {(case.module, case.kernel) for name in case_modules() for case in cases(name)}
    assert launched_kernels() == covered


@pytest.mark.parametrize(
    "used",
    [
        Usage("k", 80, 128, 65, 0, 0),
        Usage("k", 80, 2048, 64, 0, 0),
        Usage("k", 80, 128, 64, 4, 0),
        Usage("k", 80, 128, 64, 0, 163 * 1024 + 1),
    ],
)
def test_too_much_is_refused(used: Usage) -> None:
    """A register, a block's registers, a spilt or a shared byte too many does not fit."""
    case = KernelCase("module", "k", {}, registers=64)
    assert Usage("k", 90, 128, 64, 0, 163 * 1024 + 1).fits(case)
    assert not used.fits(case)
