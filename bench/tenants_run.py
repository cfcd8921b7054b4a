"""Two tenants of one server: what the second can tell of the first one's prompts.

The first sends a text; the second sends it too, and another that nobody has sent, in random order.
If the time to the first token or the number of cached tokens told which is which, it could find
out what others write, word by word. Knows no report.
"""

from __future__ import annotations

import random
from collections.abc import Sequence
from dataclasses import dataclass

from radixchat.bench.percentiles import Percentiles
from radixchat.bench.two_samples import compare
from radixchat.engine.common_prefix import common_prefix
from radixchat.server.asks import InputMessage, NewTurn
from radixchat.server.host import ChatHost
from radixchat.server.protocol import ResponseDone, ResponseOptions
from radixchat.server.service import ChatService

CONSONANTS, VOWELS = "bdfgklmnprst", "aeiou"
ONE_TOKEN = ResponseOptions(temperature=0, max_output_tokens=1)


@dataclass(frozen=True, slots=True)
class TenantsArm:
    """known: of what the first tenant had sent; fresh: of what nobody had; ms to the first token.

    foreign_tokens: cached tokens of the second one's prompts that it had not sent itself.
    distance, p: of the Kolmogorov-Smirnov test of both.
    """

    name: str
    known: Percentiles
    fresh: Percentiles
    foreign_tokens: int
    distance: float
    p: float


async def tenants_arm(
    host: ChatHost, name: str, first: str, second: str, probes: int, words: int, seed: int
) -> TenantsArm:
    """first, second: their principals; the same one makes it the control."""
    rng = random.Random(seed)
    ann, bob = host.service(first), host.service(second)
    known: list[float] = []
    fresh: list[float] = []
    sent: list[tuple[int, ...]] = []
    foreign = 0
    for _ in range(8):  # the first use of every shape, and the prompt's common head
        sent.append((await _send(bob, _text(rng, words))).input_ids)
    for _ in range(probes):
        text = _text(rng, words)
        await _send(ann, text)
        asked = [(text, known), (_text(rng, words), fresh)]
        rng.shuffle(asked)
        for probe, times in asked:
            done = await _send(bob, probe)
            assert done.timings.ttft_ms is not None
            times.append(done.timings.ttft_ms)
            foreign += max(0, done.usage.cached_tokens - _own(sent, done.input_ids))
            sent.append(done.input_ids)
    test = compare(known, fresh)
    return TenantsArm(
        name, Percentiles.of(known), Percentiles.of(fresh), foreign, test.distance, test.p
    )


def _own(sent: Sequence[tuple[int, ...]], prompt: tuple[int, ...]) -> int:
    """How much of a prompt its sender had sent before."""
    return max(common_prefix(one, prompt) for one in sent)


def _text(rng: random.Random, words: int) -> str:
    """Words that mean nothing, so that no two texts begin alike for long."""

    def word() -> str:
        return "".join(rng.choice(CONSONANTS) + rng.choice(VOWELS) for _ in range(3))

    return " ".join(word() for _ in range(words))


async def _send(service: ChatService, text: str) -> ResponseDone:
    response = await service.begin(NewTurn((InputMessage("user", text),)), ONE_TOKEN)
    reader = response.subscribe()
    while not reader.ended:
        await reader.wait()
        reader.take()
    reader.close()
    assert response.done is not None
    return response.done
