"""Compiles Triton kernels for GPUs that are not here, and reads what they use of them.

A `KernelCase` is one way of launching a kernel; modules named compile_cases_*.py list them as
CASES. Triton decides between interpreter and compiler when a kernel's module is imported, and tests
run in the interpreter: `compile_cases` therefore runs this module in a process of its own. Knows no
kernel by name.
"""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
import tempfile
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from importlib import import_module
from pathlib import Path
from typing import Any

CAPABILITIES = (80, 90)
# What a block may have: shared memory in bytes (CUDA C++ programming guide, table of compute
# capabilities), registers of all its threads, registers of one.
MAX_SHARED = {80: 163 * 1024, 90: 227 * 1024}
MAX_REGISTERS, MAX_THREAD_REGISTERS = 65_536, 255


@dataclass(frozen=True, slots=True)
class KernelCase:
    """One way of launching a kernel.

    module: in radixchat.kernels; kernel: its name there. types: of the arguments that are no
    constants, as Triton writes them ("*bf16", "i32", "fp32"). Pointers are taken as divisible by
    16, and so are the integers in `aligned`, as a launch finds out by itself. constants: of the
    constexpr arguments. registers: most of one thread; spills: most bytes of a thread's stack: only
    registers that do not fit go there.
    """

    module: str
    kernel: str
    types: Mapping[str, str]
    constants: Mapping[str, Any] = field(default_factory=dict)
    aligned: tuple[str, ...] = ()
    num_warps: int = 4
    num_stages: int = 3
    registers: int = MAX_THREAD_REGISTERS
    spills: int = 0
    label: str = ""

    @property
    def name(self) -> str:
        """For people."""
        return f"{self.kernel} {self.label}".rstrip()


@dataclass(frozen=True, slots=True)
class Usage:
    """What a case takes on one capability; registers a thread, the rest in bytes."""

    name: str
    capability: int
    threads: int
    registers: int
    spills: int
    shared: int

    def __str__(self) -> str:
        return (
            f"sm_{self.capability} {self.name}: {self.threads} threads, {self.registers} registers,"
            f" {self.spills} B of spills, {self.shared} B shared"
        )

    def fits(self, case: KernelCase) -> bool:
        """Whether that is no more than the case, and a block, may take."""
        return (
            self.registers <= case.registers
            and self.registers * self.threads <= MAX_REGISTERS
            and self.spills <= case.spills
            and self.shared <= MAX_SHARED[self.capability]
        )


def case_modules() -> list[str]:
    """The modules that list cases, as imported."""
    here = Path(__file__).parent
    return [f"radixchat.tests.kernels.{path.stem}" for path in here.glob("compile_cases_*.py")]


def cases(module: str) -> list[KernelCase]:
    """The cases that a module lists."""
    listed: list[KernelCase] = import_module(module).CASES
    return listed


def compile_cases(module: str, most: int | None = None) -> list[Usage]:
    """The cases of a module, or so many of them, for every capability, case by case.

    In a process of its own; what fails raises AssertionError with its log.
    """
    environment = {k: v for k, v in os.environ.items() if k != "TRITON_INTERPRET"}
    arguments = [module] if most is None else [module, str(most)]
    done = subprocess.run(
        [sys.executable, "-m", __name__, *arguments],
        env=environment,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr[-8000:]
    return [Usage(**usage) for usage in json.loads(done.stdout.splitlines()[-1])]


def compile_case(case: KernelCase, capability: int) -> Usage:
    """Compile here and now; not under TRITON_INTERPRET."""
    import triton
    from triton.backends.compiler import GPUTarget
    from triton.compiler import ASTSource

    kernel = getattr(import_module(f"radixchat.kernels.{case.module}"), case.kernel)
    names: list[str] = kernel.arg_names
    assert set(names) == {*case.types, *case.constants}, (
        f"{case.name}: arguments {set(names) ^ {*case.types, *case.constants}}"
    )
    signature = {name: case.types.get(name, "constexpr") for name in names}
    aligned = [i for i, n in enumerate(names) if signature[n].startswith("*") or n in case.aligned]
    source = ASTSource(
        fn=kernel,
        signature=signature,
        constexprs=dict(case.constants),
        attrs={(i,): [["tt.divisibility", 16]] for i in aligned},
    )
    options = {"num_warps": case.num_warps, "num_stages": case.num_stages}
    compiled = triton.compile(source, target=GPUTarget("cuda", capability, 32), options=options)
    report = _report(compiled.asm["cubin"])
    found = re.search(rf"Function {case.kernel}:\s+REG:(\d+) STACK:(\d+)", report)
    assert found is not None, report
    return Usage(
        name=case.name,
        capability=capability,
        threads=32 * compiled.metadata.num_warps,
        registers=int(found[1]),
        spills=int(found[2]),
        shared=compiled.metadata.shared,
    )


def _report(cubin: bytes) -> str:
    """What the assembler noted in a kernel's binary; read by the tool that Triton ships."""
    from triton import knobs

    with tempfile.NamedTemporaryFile(suffix=".cubin") as file:
        file.write(cubin)
        file.flush()
        command = [knobs.nvidia.cuobjdump.path, "--dump-resource-usage", file.name]
        done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    return done.stdout


def main() -> None:
    """The process that compile_cases starts: one line of JSON, last."""
    listed = cases(sys.argv[1])[: int(sys.argv[2]) if len(sys.argv) > 2 else None]
    used = [compile_case(case, capability) for case in listed for capability in CAPABILITIES]
    sys.stdout.write(json.dumps([asdict(usage) for usage in used]) + "\n")


if __name__ == "__main__":
    main()
