"""Kernels and engine on a GPU, against torch's own and against what the device can do at best.

\b
    python bench/gpu.py --model SmolLM2-135M-Instruct.Q4_1.gguf
    python bench/gpu.py --model part0 --model part1      the file in pieces
    python bench/gpu.py --dry                            the plan in Triton's interpreter

From a checkout where nothing is installed: PYTHONPATH=.types python bench/gpu.py. It needs torch,
triton, numpy and click, and downloads nothing.

First every Triton kernel is compared with the reference in double precision. Then the ceilings are
measured, bytes and matrix operations a second, and the kernels are timed with events, with a cold
cache, beside torch's attention and products. Last the engine runs whole: the model of the file, if
one is named, and a model of 8B's shape with random weights, of which requests decode together.
With --only checks, kernels or engine a part of it. A table and bench/results/gpu-<name>.json come
out; the exit code is 1 where a kernel is wrong or a goal's floor is missed.
"""

from __future__ import annotations

import json
import os
from collections.abc import Sequence
from pathlib import Path

import click

PARTS = ("checks", "kernels", "engine")
RESULTS = Path(__file__).resolve().parent / "results"


@click.command(help=__doc__)
@click.option("--dry", is_flag=True, help="Small shapes on the CPU: to see that it runs.")
@click.option(
    "--model", "pieces", multiple=True, metavar="PATH",
    type=click.Path(exists=True, dir_okay=False, path_type=Path),
    help="A .gguf file; given several times: its pieces in order.",
)  # fmt: skip
@click.option("--only", type=click.Choice(PARTS), multiple=True, help="[default: all parts]")
@click.option(
    "--dtype", type=click.Choice(["bf16", "fp16"]), default="bf16", show_default=True,
    help="Of weights, activations and KV.",
)  # fmt: skip
@click.option("--skip-8b", is_flag=True, help="For a GPU with less than 48 GB.")
@click.option(
    "--results", type=click.Path(file_okay=False, path_type=Path), default=RESULTS,
    show_default="bench/results", help="Where the JSON goes; a dry run writes none.",
)  # fmt: skip
@click.option("--json", "with_json", is_flag=True, help="End with one line of JSON.")
def main(
    dry: bool,
    pieces: Sequence[Path],
    only: tuple[str, ...],
    dtype: str,
    skip_8b: bool,
    results: Path,
    with_json: bool,
) -> None:
    """Run the parts and print."""
    if dry:
        # Triton decides when a kernel's module is imported, which is below.
        os.environ["TRITON_INTERPRET"] = "1"
    from radixchat.bench.gpu_run import GpuPlan, NoGpu, run

    plan = GpuPlan(tuple(pieces), only or PARTS, dtype, with_8b=not skip_8b)
    try:
        result = run(plan, click.echo, dry=dry)
    except NoGpu as error:
        raise click.ClickException(str(error)) from error
    document = result.as_document()
    if not dry:
        results.mkdir(parents=True, exist_ok=True)
        path = results / f"gpu-{result.slug}.json"
        path.write_text(json.dumps(document, indent=1) + "\n", encoding="utf-8")
        click.echo(f"\nwritten to {path}")
    if with_json:
        click.echo(json.dumps(document))
    if faults := result.faults(judged=not dry):
        raise click.ClickException("; ".join(faults))


if __name__ == "__main__":
    main()
