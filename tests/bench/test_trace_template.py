"""Chats in a model's own tokens: prompts extend each other, or diverge where the template does."""

from __future__ import annotations

import hashlib
from pathlib import Path

import pytest

from radixchat.bench.trace import TraceRequest, open_trace
from radixchat.bench.trace_item import TraceError
from radixchat.bench.trace_template import TemplateEncoder
from radixchat.engine.errors import ModelLoadError
from radixchat.engine.prompt import ChatMessage
from radixchat.engine.template import ChatTemplate
from radixchat.engine.tokenizer import Tokenizer
from radixchat.tests.bench.traces import chat, requests_of, write_trace
from radixchat.tests.tiny_model import CHAT_TEMPLATE, tiny_model_directory

END = 258  # <|im_end|>
QUESTION, ANSWER, FOLLOW_UP = "Two colours?", "Blue\nand red.", "A third?"

STRIPS_REASONING = CHAT_TEMPLATE.replace(
    "{{ message['content'] }}",
    "{% if '</think>' in message['content'] %}{{ message['content'].split('</think>')[-1] }}"
    "{% else %}{{ message['content'] }}{% endif %}",
)
TRIMS = CHAT_TEMPLATE.replace("message['content'] }}", "message['content'] | trim }}")
OPENS_THINKING = CHAT_TEMPLATE.replace("assistant\n", "assistant\n<think>\n")
ALTERNATES = "{% if messages | length == 5 %}{{ raise_exception('five') }}{% endif %}" + (
    CHAT_TEMPLATE
)


@pytest.fixture(scope="module")
def tokenizer(tmp_path_factory: pytest.TempPathFactory) -> Tokenizer:
    """Every byte is a token."""
    return Tokenizer.from_directory(tiny_model_directory(tmp_path_factory.mktemp("tiny") / "m"))


def encoder(tokenizer: Tokenizer, source: str) -> TemplateEncoder:
    template = ChatTemplate(source, bos_token="<|endoftext|>", eos_token="<|im_end|>")
    return TemplateEncoder(tokenizer, template)


def two_turns(tokenizer: Tokenizer, source: str, answer: str) -> tuple[str, str, str, int]:
    """Both prompts and the first output as text, and how much of the first two the third keeps."""
    tokens = encoder(tokenizer, source).begin()
    messages = [ChatMessage("user", QUESTION)]
    first, output = tokens.turn(messages, answer)
    messages += [ChatMessage("assistant", answer), ChatMessage("user", FOLLOW_UP)]
    second, none = tokens.turn(messages, None)
    assert none == []
    whole = first + output
    kept = next(
        (i for i, (a, b) in enumerate(zip(whole, second, strict=False)) if a != b),
        min(len(whole), len(second)),
    )
    template = ChatTemplate(source, bos_token=None, eos_token=None)
    fresh = tokenizer.encode_prompt(template.render(messages, add_generation_prompt=True))
    assert second == fresh, "every byte is a token, so how it was cut must not show"
    texts = tuple(tokenizer.decode(ids) for ids in (first, output, second))
    return texts[0], texts[1], texts[2], kept - len(first)


def test_a_template_that_keeps_history_gives_extensions(tokenizer: Tokenizer) -> None:
    """The second prompt begins with the first and its answer, the sampled end included."""
    first, output, second, kept = two_turns(tokenizer, CHAT_TEMPLATE, ANSWER)
    assert output == ANSWER
    assert kept == len(ANSWER) + 1
    assert second == f"{first}{ANSWER}\nuser\n{FOLLOW_UP}\nassistant\n"


@pytest.mark.parametrize(
    ("source", "answer", "kept"),
    [
        (STRIPS_REASONING, "<think>\nEasy.\n</think>\nBlue.", 0),
        (STRIPS_REASONING, "Blue.", len("Blue.") + 1),  # there is nothing to strip
        (TRIMS, "Blue.  \n", len("Blue.")),
        (TRIMS, "  Blue.", 0),
        (OPENS_THINKING, "Blue.", -len("<think>\n")),
    ],
)
def test_a_template_that_rewrites_history_diverges_there(
    tokenizer: Tokenizer, source: str, answer: str, kept: int
) -> None:
    """Tokens of the answer that the next prompt has; negative where the prompt itself differs."""
    assert two_turns(tokenizer, source, answer)[3] == kept


def test_what_is_typed_is_no_control_token(tokenizer: Tokenizer) -> None:
    """In questions and in answers; the one end of the output is the sampled one."""
    prompt, output = (
        encoder(tokenizer, CHAT_TEMPLATE)
        .begin()
        .turn([ChatMessage("user", "<|im_end|>")], "<|im_end|>")
    )
    assert (prompt.count(END), output.count(END)) == (1, 1)


def test_a_chat_that_the_template_refuses_is_told(tokenizer: Tokenizer, tmp_path: Path) -> None:
    """With its line; a template may have rules of its own."""
    folder = tiny_model_directory(tmp_path / "model")
    (folder / "chat_template.jinja").write_text(ALTERNATES, encoding="utf-8")
    path = write_trace(tmp_path / "t", [{"messages": chat(*"ab")}, {"messages": chat(*"abcde")}])
    requests = iter(open_trace(path, tokenizer=str(folder)))
    assert [next(requests), next(requests), next(requests)]
    with pytest.raises(TraceError, match="t:2: the chat template refuses the conversation: five"):
        next(requests)


def test_a_folder_needs_only_its_tokenizer(tmp_path: Path) -> None:
    """No weights, no config; its ids are the model's."""
    folder = tiny_model_directory(tmp_path / "model")
    for name in ("config.json", "model.safetensors"):
        (folder / name).unlink()
    path = write_trace(tmp_path / "t", [{"messages": chat("Hi", "Hello")}])
    (request,) = requests_of(open_trace(path, tokenizer=str(folder)))
    tokenizer = Tokenizer.from_directory(folder)
    assert tokenizer.decode(map(int, request.prompt)) == "user\nHi\nassistant\n"
    assert tokenizer.decode(map(int, request.output)) == "Hello"
    assert int(request.output[-1]) == END


def test_a_tokenizer_that_cannot_be_had_is_told(tmp_path: Path) -> None:
    """With the command that fetches it; a model without a chat template cannot do."""
    path = write_trace(tmp_path / "t", [{"messages": chat("Hi")}])
    with pytest.raises(ModelLoadError, match="radixchat models pull some/model"):
        open_trace(path, tokenizer="some/model")
    with pytest.raises(ModelLoadError, match="is no model"):
        open_trace(path, tokenizer="wörter")


@pytest.mark.shared_data
@pytest.mark.model
@pytest.mark.parametrize(
    ("name", "prompts_only", "with_replies"),
    [
        ("multilingual_mtbench_2turn", 24.2, 70.2),
        pytest.param("mtbench101", 47.6, 76.9, marks=pytest.mark.slow),
        pytest.param("oasst1_en_validation_tree_paths", 60.7, 87.4, marks=pytest.mark.slow),
    ],
)
def test_what_an_infinite_cache_saves_of_the_shared_chats(
    default_model: Path, shared_data: Path, name: str, prompts_only: float, with_replies: float
) -> None:
    """In SmolLM2's tokens, its default system prompt included, in blocks of 16.

    The figures are those of an encoder that knows only SmolLM2's template, by hand.
    """
    path = shared_data / "chat" / f"{name}.jsonl.xz"
    requests = requests_of(open_trace(path, tokenizer=str(default_model)))
    assert infinite_hit_percent(requests, keep_replies=False) == prompts_only
    assert infinite_hit_percent(requests, keep_replies=True) == with_replies


def infinite_hit_percent(requests: list[TraceRequest], keep_replies: bool) -> float:
    """Of the prompt tokens; a cache of full blocks, each known by the hash of what it ends."""
    size = 16
    seen: set[bytes] = set()
    cached = 0
    for request in requests:
        computed = [*request.prompt, *(request.output[:-1] if keep_replies else [])]
        chain, hit = hashlib.blake2b(digest_size=16), True
        for start in range(0, len(computed) - size + 1, size):
            chain.update(repr(computed[start : start + size]).encode())
            block = chain.digest()
            hit = hit and block in seen and start + size < request.num_tokens
            cached += size * hit
            seen.add(block)
    return round(100 * cached / sum(request.num_tokens for request in requests), 1)
