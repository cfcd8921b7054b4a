"""What INT8 KV costs and saves: bytes, perplexity on given chats, sessions in the same memory.

\b
    radixchat bench kv CHATS [--tokens 8192] [--window 2048] [--model NAME] [--json]

CHATS: a file with one chat a line, as `bench replay` reads it, plain or packed. The same text goes
through two engines, in the chunks of a prompt: KV as it is computed, and as codes of 8 bits with a
scale for each token and head; each token's probability depends on what was read back. Then
sessions fill a pool of the same bytes until the first is lost. Chats shorter than half of --window
are left out. The exit code is 1 where a goal's floor is missed; goals are judged on 4,096 tokens
or more. With the default model on two cores it takes about two minutes.
"""

from __future__ import annotations

import json
import os
from collections.abc import Iterator
from dataclasses import dataclass, replace

import click
import numpy as np

from radixchat.bench.bench_model import load_model
from radixchat.bench.cpu_goals import Verdict
from radixchat.bench.kv_chats import chat_windows
from radixchat.bench.kv_run import KVArm, SessionLoad, run_arm
from radixchat.bench.provenance import facts, machine
from radixchat.bench.trace_item import TraceError
from radixchat.bench.trace_template import TemplateEncoder
from radixchat.engine.config import DEFAULT_PAGE_SIZE, EngineConfig
from radixchat.engine.errors import RadixChatError
from radixchat.engine.model_config import ModelConfig
from radixchat.engine.model_store import DEFAULT_MODEL

SESSION_TOKENS = 96
# As many fit with KV of 16 bits a number.
SESSIONS_OF_16_BITS = 12
# Fewer tell too little of a perplexity: single tokens move by hundredths of a nat, either way.
JUDGED_TOKENS = 4096
# M5: the largest of each, and the fewest sessions to those of 16 bits.
BYTES_RATIO = (0.519, 0.3125)
PERPLEXITY = (0.1, 0.0)
SESSIONS_RATIO = (1.9, 3.0)


@dataclass(frozen=True, slots=True)
class KVResult:
    """Both arms on the same text. half_bytes_per_token: what KV of 16 bits a number would take;
    half_sessions: so many of them would fit."""

    plain: KVArm
    int8: KVArm
    half_bytes_per_token: int
    half_sessions: int

    @property
    def bytes_ratio(self) -> float:
        """INT8 to 16 bits."""
        return self.int8.bytes_per_token / self.half_bytes_per_token

    @property
    def perplexity_change(self) -> float:
        """What INT8 adds."""
        return self.int8.perplexity - self.plain.perplexity

    @property
    def loss_changes(self) -> tuple[float, float]:
        """Of a token's loss, in nats: how far it moves in the mean, and at most."""
        moved = np.abs(self.int8.losses - self.plain.losses)
        return float(moved.mean()), float(moved.max())

    def verdicts(self) -> list[Verdict]:
        """M5; none where the text is too short to judge by."""
        if len(self.plain.losses) < JUDGED_TOKENS:
            return []
        sessions = self.int8.sessions / self.half_sessions
        return [
            Verdict("M5", "bytes to 16 bits", self.bytes_ratio, *BYTES_RATIO, False, "x"),
            Verdict("M5", "perplexity added", self.perplexity_change, *PERPLEXITY, False, ""),
            Verdict("M5", "sessions to 16 bits", sessions, *SESSIONS_RATIO, True, "x"),
        ]


def session_load(model: ModelConfig) -> SessionLoad:
    """A pool with room for SESSIONS_OF_16_BITS whole ones, a page for the answer's token, and the
    page that an acquire may copy."""
    pages = SESSIONS_OF_16_BITS * -(-SESSION_TOKENS // DEFAULT_PAGE_SIZE) + 2
    return SessionLoad(pages * DEFAULT_PAGE_SIZE * model.kv_bytes_per_token(2), SESSION_TOKENS)


def compare(checkpoint_name: str, chats: str, window: int, tokens: int) -> KVResult:
    """Run both arms; raises RadixChatError, TraceError and click.ClickException."""
    config = EngineConfig(page_size=DEFAULT_PAGE_SIZE, device="cpu")
    checkpoint = load_model(checkpoint_name, config)
    encoder = TemplateEncoder.load(checkpoint_name)
    texts = chat_windows(chats, encoder, window, tokens)
    if not texts:
        raise click.ClickException(
            f"{chats} has no chat of {window // 2} tokens or more, which is half of --window"
            f" ({window}); a smaller --window takes shorter chats"
        )
    load = session_load(checkpoint.config)
    plain, int8 = (
        run_arm(checkpoint, replace(config, kv=kv), texts, load) for kv in ("auto", "int8")
    )
    return KVResult(plain, int8, checkpoint.config.kv_bytes_per_token(2), SESSIONS_OF_16_BITS)


def lines(result: KVResult) -> Iterator[str]:
    """The table."""
    yield f"{len(result.plain.losses):,} tokens of text"
    yield ""
    yield "KV      bytes a token   perplexity   sessions in the same memory"
    for arm in (result.plain, result.int8):
        yield (f"{arm.kv:<8}{arm.bytes_per_token:>13,}{arm.perplexity:>13.4f}{arm.sessions:>14}")
    yield f"16 bits {result.half_bytes_per_token:>13,}{'':13}{result.half_sessions:>14}  (computed)"
    mean, largest = result.loss_changes
    yield f"INT8 moves a token's loss by {mean:.4f} in the mean, by {largest:.3f} at most (nats)."
    yield ""
    verdicts = result.verdicts()
    if verdicts:
        yield "Goal M5, what INT8 KV may cost and has to save, beside KV of 16 bits:"
        yield from (each.line() for each in verdicts)
    else:
        yield f"No goal is judged on fewer than {JUDGED_TOKENS:,} tokens of text: they tell too"
        yield "little of the perplexity. More or longer chats, or a larger --tokens, give more."


def as_document(result: KVResult) -> dict[str, object]:
    """The keys that follow the facts in the JSON line."""
    arms = {
        arm.kv: {
            "bytes_per_token": arm.bytes_per_token,
            "perplexity": round(arm.perplexity, 5),
            "sessions": arm.sessions,
        }
        for arm in (result.plain, result.int8)
    }
    mean, largest = result.loss_changes
    return {
        "predicted_tokens": len(result.plain.losses),
        "arms": arms,
        "bytes_to_16_bits": round(result.bytes_ratio, 4),
        "perplexity_added": round(result.perplexity_change, 5),
        "loss_moved": {"mean": round(mean, 5), "max": round(largest, 4)},
        "sessions_of_16_bits": result.half_sessions,
        "goals": [each.as_dict() for each in result.verdicts()],
    }


@click.command(help=__doc__)
@click.argument("chats")
@click.option("--json", "with_json", is_flag=True, help="End with one line of JSON.")
@click.option("--model", default=DEFAULT_MODEL, show_default=True)
@click.option(
    "--tokens", type=click.IntRange(min=2), default=8192, show_default=True,
    help="How many are predicted.",
)  # fmt: skip
@click.option(
    "--window", type=click.IntRange(min=2), default=2048, show_default=True,
    help="Of a chat, at most so many tokens; those of less than half are left out.",
)  # fmt: skip
def main(chats: str, with_json: bool, model: str, tokens: int, window: int) -> None:
    """Run both arms and print."""
    load = os.getloadavg()[0]
    click.echo(f"{machine()}, load {load:.2f}, {model}")
    try:
        result = compare(model, chats, window, tokens)
    except (RadixChatError, TraceError) as error:
        raise click.ClickException(str(error)) from error
    click.echo("\n".join(lines(result)))
    if with_json:
        config = {"tokens": tokens, "window": window}
        head = facts("kv", load, model=model, config=config)
        click.echo(json.dumps(head | as_document(result)))
    missed = [each.what for each in result.verdicts() if each.reached == "missed"]
    if missed:
        raise click.ClickException(f"INT8 KV is below the floor: {', '.join(missed)}")


if __name__ == "__main__":
    main()
