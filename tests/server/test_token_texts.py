"""Single tokens as clients read them."""

from __future__ import annotations

from radixchat.engine.logprobs import TokenLogprob
from radixchat.engine.tokenizer import Tokenizer
from radixchat.server.protocol import OutputLogprob
from radixchat.server.token_texts import TokenTexts
from radixchat.tests.engine.vocabularies import byte_characters, byte_level_fields

TOKENIZER = Tokenizer.from_gguf(byte_level_fields())
TOKENS = byte_level_fields()["tokenizer.ggml.tokens"]


def test_tokens_have_texts_exact_bytes_and_names() -> None:
    """A byte of a character is U+FFFD with its byte; a control token its name, without bytes."""
    half = TOKENS.index(byte_characters()[0xF0])
    letter = TOKENS.index("a")
    end = TOKENIZER.control_tokens["<|im_end|>"]
    beyond = TOKENIZER.vocab_size
    logprob = TokenLogprob(half, -1.5, 2, ((letter, -0.5), (end, -3.0), (beyond, -9.0)))
    assert TokenTexts(TOKENIZER).output_logprob(logprob) == OutputLogprob(
        "\ufffd",
        b"\xf0",
        -1.5,
        (
            OutputLogprob("a", b"a", -0.5),
            OutputLogprob("<|im_end|>", None, -3.0),
            OutputLogprob("", None, -9.0),
        ),
    )
