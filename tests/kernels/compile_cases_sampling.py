"""How sampling is launched: logits in fp32, vocabularies that are multiples of 16 and others."""

from __future__ import annotations

from radixchat.tests.kernels.compiled import KernelCase

CASES = [
    KernelCase(
        "triton_sampling",
        "sample_kernel",
        {
            "logits": "*fp32",
            "counts": "*i64",
            "numbers": "*fp32",
            "weights": "*fp32",
            "ids": "*i32",
            "tokens": "*i64",
            **dict.fromkeys(("stride", "vocabulary", "rows"), "i32"),
        },
        {"BLOCK": 2048, "CANDIDATES": 256},
        aligned=aligned,
        num_warps=8,
        registers=128,
        # ptxas aims at 80 registers and parks a few of a program's scalars; which ones, and how
        # many, differs from release to release.
        spills=48,
        label="aligned" if aligned else "",
    )
    for aligned in (("stride", "vocabulary"), ())
]
