"""What is assumed of the next step, and when it holds: each condition by itself."""

from __future__ import annotations

from dataclasses import replace

import pytest
import torch

from radixchat.engine.batch import ScheduledRequest
from radixchat.engine.config import EngineConfig
from radixchat.engine.device_queue import CpuQueue
from radixchat.engine.device_runner import DeviceRunner
from radixchat.engine.lookahead import AssumedRow, goes_on, holds, is_plain
from radixchat.engine.request import Request
from radixchat.engine.sampler import Sampled
from radixchat.engine.sampling_params import SamplingParams
from radixchat.engine.weights import Checkpoint
from radixchat.radix.allocation import Allocation, PageCopy
from radixchat.tests.engine.driver import GREEDY, prompt


def running(tokens: list[int], computed: int, params: SamplingParams = GREEDY) -> Request:
    """A request of three prompt tokens that holds a page."""
    request = Request(1, tokens[:3], params)
    request.tokens += tokens[3:]
    request.num_computed = computed
    request.allocation = Allocation(b"", [0])
    return request


@pytest.mark.parametrize(
    ("changes", "plain", "drawn"),
    [
        ({}, True, True),
        ({"temperature": 0.7, "top_p": 0.9, "top_k": 5, "min_p": 0.1}, False, True),
        ({"temperature": 0.7, "typical_p": 0.5}, False, False),
        ({"logprobs": 0}, False, False),
        ({"repetition_penalty": 1.1}, False, False),
        ({"logit_bias": ((3, 1.0),)}, False, False),
        ({"min_tokens": 2}, False, False),
        ({"min_tokens": 1}, True, True),
    ],
)
def test_a_token_is_plain_where_the_device_can_sample_it(
    changes: dict[str, object], plain: bool, drawn: bool
) -> None:
    """Of a request with one token of answer; drawn: on a device that draws."""
    request = running([5, 6, 7, 8], 3, replace(GREEDY, **changes))  # type: ignore[arg-type]  # by name
    item = ScheduledRequest(request, 1)
    assert is_plain(item, draws=False) == plain
    assert is_plain(item, draws=True) == drawn


def test_chunks_that_sample_nothing_drafts_and_prompt_logprobs_are_not_plain() -> None:
    """They need more than one row of logits, or none."""
    request = running([5, 6, 7, 8], 0)
    assert is_plain(ScheduledRequest(request, 4), draws=True)
    assert not is_plain(ScheduledRequest(request, 3), draws=True)
    assert not is_plain(ScheduledRequest(request, 4, draft=(1,)), draws=True)
    asking = running([5, 6, 7], 0, replace(GREEDY, prompt_logprobs=0))
    assert not is_plain(ScheduledRequest(asking, 3), draws=True)


def test_an_answer_that_ends_with_this_token_whatever_it_is_does_not_go_on(
    tiny: Checkpoint,
) -> None:
    """By its own limit, or the context's."""
    plan = EngineConfig(threads=1).resolve(tiny.config, tiny.weights)
    item = ScheduledRequest(running([5, 6, 7, 8], 3, replace(GREEDY, max_tokens=3)), 1)
    assert goes_on(item, plan)
    item = ScheduledRequest(running([5, 6, 7, 8], 3, replace(GREEDY, max_tokens=2)), 1)
    assert not goes_on(item, plan)
    long = Request(1, [5] * (plan.max_tokens - 2), GREEDY)
    assert goes_on(ScheduledRequest(long, len(long.tokens)), plan)
    long = Request(1, [5] * (plan.max_tokens - 1), GREEDY)
    assert not goes_on(ScheduledRequest(long, len(long.tokens)), plan)


def test_a_row_holds_where_everything_is_as_it_was_assumed() -> None:
    """The request, its length, what is computed of it, the token before; and that it is plain."""
    request = running([5, 6, 7, 8], 3)
    row = AssumedRow(request, 4, slot=3, place=0)
    assert holds(row, ScheduledRequest(request, 1), 8, draws=False)
    assert not holds(row, ScheduledRequest(request, 1), 9, draws=False)
    assert not holds(row, ScheduledRequest(running([5, 6, 7, 8], 3), 1), 8, draws=False)
    assert not holds(row, ScheduledRequest(request, 1, draft=(1,)), 8, draws=False)
    longer = replace(row, length=5)
    assert not holds(longer, ScheduledRequest(request, 1), 8, draws=False)
    request.num_computed = 0  # it gave up its pages, and is computed again in one chunk
    assert not holds(row, ScheduledRequest(request, 4), 8, draws=False)


def test_what_was_computed_ahead_is_moved_before_its_page_is_written_over(
    tiny: Checkpoint,
) -> None:
    """The request's page was a duplicate: it has another now, and somebody else has this one."""
    plan = EngineConfig(threads=1, page_size=4, pool_tokens=64).resolve(tiny.config, tiny.weights)
    runner = DeviceRunner(tiny, plan, CpuQueue())
    request = Request(1, prompt(2), GREEDY)
    request.allocation = Allocation(b"", [0])
    first = runner.run([ScheduledRequest(request, 2)])[0].sampled[0]
    assert isinstance(first, Sampled)
    request.tokens.append(first.token)
    request.num_computed = 2
    expected = [part[:, 0].clone() for part in runner.pages.parts()]
    runner.pages.copy_slots([(0, 5, 2)])
    request.allocation.pages = [5]
    other = Request(2, prompt(4, 7), GREEDY)
    other.num_computed = 3
    other.allocation = Allocation(b"", [0], copies=[PageCopy(6, 0, 3)])
    runner.run([ScheduledRequest(request, 1), ScheduledRequest(other, 1)])
    assert runner.lookahead.held == 1
    for part, right in zip(runner.pages.parts(), expected, strict=True):
        assert torch.equal(part[:, 5, :, :3], right[:, :, :3])
        assert not part[:, 0, :, :3].any()


def test_an_assumption_is_for_the_next_step_only(tiny: Checkpoint) -> None:
    """A step of somebody else comes between: what was assumed before it is forgotten."""
    plan = EngineConfig(threads=1, page_size=4, pool_tokens=64).resolve(tiny.config, tiny.weights)
    runner = DeviceRunner(tiny, plan, CpuQueue())
    request, other = Request(1, prompt(3), GREEDY), Request(2, prompt(2, 7), GREEDY)
    request.allocation, other.allocation = Allocation(b"", [0]), Allocation(b"", [1])
    first = runner.run([ScheduledRequest(request, 3)])[0].sampled[0]
    assert isinstance(first, Sampled)
    request.tokens.append(first.token)
    request.num_computed = 3
    runner.run([ScheduledRequest(other, 1)])  # a chunk that is followed by no assumption
    runner.run([ScheduledRequest(request, 1)])
    assert runner.lookahead.held == 0
