"""The self-test of a start: it passes what is exact, and finds whatever is not."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
import torch
from torch import Tensor
from torch.nn import functional

from radixchat.kernels import cpu_jit, ops
from radixchat.kernels.layers import LayerShape, LayerStack, LayerWeights
from radixchat.kernels.self_test import exact_here
from radixchat.tests.kernels.kernel_bug import (
    CPU_BUGS,
    NO_BUG,
    TORCH_BUGS,
    CpuBug,
    StepBug,
    TorchBug,
)

# The default model's layer, and a head of fewer tokens.
HIDDEN, INTERMEDIATE, VOCABULARY = 576, 1536, 512
SHAPE = LayerShape(num_heads=9, num_kv_heads=3, head_dim=64, rms_eps=1e-5)
QKV = (SHAPE.num_heads + 2 * SHAPE.num_kv_heads) * SHAPE.head_dim
KV_DTYPES = (torch.float32, torch.int8)


def random(*shape: int, seed: int) -> Tensor:
    """Numbers that keep the size of what they are multiplied with."""
    generator = torch.Generator().manual_seed(seed)
    return torch.randn(*shape, generator=generator).mul(float(shape[-1]) ** -0.5)


LAYER = LayerWeights(
    input_norm=1 + random(HIDDEN, seed=1),
    qkv=random(QKV, HIDDEN, seed=2),
    out=random(HIDDEN, HIDDEN, seed=3),
    middle_norm=1 + random(HIDDEN, seed=4),
    gate_up=random(2 * INTERMEDIATE, HIDDEN, seed=5),
    down=random(HIDDEN, INTERMEDIATE, seed=6),
)
HEAD = random(VOCABULARY, HIDDEN, seed=7)


def good_head(rows: Tensor) -> Tensor:
    return ops.linear(rows, HEAD)


def verdict(stack: LayerStack, kv_dtype: torch.dtype, page_size: int = 16) -> str | None:
    """What the self-test says of a stack."""
    return exact_here(stack, SHAPE, HIDDEN, kv_dtype, page_size, good_head)


@pytest.fixture(params=[1, 2])
def threads(request: pytest.FixtureRequest) -> Iterator[int]:
    """The number of torch's threads."""
    before = torch.get_num_threads()
    torch.set_num_threads(request.param)
    yield request.param
    torch.set_num_threads(before)


@pytest.mark.usefixtures("threads")
@pytest.mark.parametrize("page_size", [1, 16, 32])
@pytest.mark.parametrize("kv_dtype", KV_DTYPES)
def test_what_the_engine_runs_is_exact_here(kv_dtype: torch.dtype, page_size: int) -> None:
    """The stack that ops chooses passes on the machine of the tests, whatever the pages."""
    assert verdict(ops.layer_stack(SHAPE, [LAYER]), kv_dtype, page_size) is None


@pytest.mark.usefixtures("threads")
@pytest.mark.parametrize("kv_dtype", KV_DTYPES)
def test_torch_attention_does_not_pass(kv_dtype: torch.dtype) -> None:
    """Control: products of any row count and torch's own attention are found out, in words."""
    message = verdict(ops.layer_stack(SHAPE, [LAYER], exact=False), kv_dtype)
    assert message is not None
    assert "other bits when computed" in message


def test_a_head_of_any_row_count_does_not_pass() -> None:
    """Control: logits of one row that differ from those of five are found as well."""
    stack = ops.layer_stack(SHAPE, [LAYER])
    message = exact_here(
        stack, SHAPE, HIDDEN, torch.float32, 16, lambda rows: functional.linear(rows, HEAD)
    )
    assert message is not None
    assert message.startswith("logits of 1 rows")


@pytest.mark.parametrize("bug", TORCH_BUGS, ids=lambda bug: bug.name)
def test_every_seeded_bug_is_found(bug: TorchBug) -> None:
    """Whatever makes a row depend on its chunk is found with fp32 or with int8 K and V."""
    stack = bug.stack(SHAPE, [LAYER])
    with torch.inference_mode():
        assert any(verdict(stack, kv_dtype) is not None for kv_dtype in KV_DTYPES)


@pytest.fixture
def uncached(monkeypatch: pytest.MonkeyPatch) -> None:
    """What is compiled from changed sources is not kept on disk."""
    monkeypatch.setattr(cpu_jit, "cache_folder", lambda: None)


@pytest.mark.slow
@pytest.mark.usefixtures("uncached")
@pytest.mark.parametrize("bug", [NO_BUG, *CPU_BUGS], ids=lambda bug: bug.name)
def test_every_seeded_bug_of_the_cpu_kernels_is_found(
    bug: CpuBug | StepBug,
) -> None:
    """Whatever makes a row depend on its chunk; the same stack without a bug passes."""
    layer = LayerWeights(
        LAYER.input_norm,
        packed(LAYER.qkv),
        packed(LAYER.out),
        LAYER.middle_norm,
        packed(LAYER.gate_up),
        packed(LAYER.down),
    )
    stack = bug.stack(SHAPE, layer)
    with torch.inference_mode():
        found = [verdict(stack, kv_dtype) for kv_dtype in KV_DTYPES]
    assert any(found) == (bug is not NO_BUG), found


def packed(matrix: ops.Matrix) -> ops.Matrix:
    """With eight bits a weight: rows alone and many rows take different ways through it."""
    assert isinstance(matrix, Tensor)
    return ops.pack_int8(matrix)


def test_nothing_is_left_behind() -> None:
    """The weights are as they were, and a second run says the same."""
    weights = [w for w in (LAYER.qkv, LAYER.out, LAYER.down) if isinstance(w, Tensor)]
    before = [weight.clone() for weight in weights]
    stack = ops.layer_stack(SHAPE, [LAYER])
    assert verdict(stack, torch.float32) is None
    assert verdict(stack, torch.float32) is None
    assert len(weights) == 3
    assert all(map(torch.equal, before, weights))
