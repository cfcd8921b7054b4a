"""Tokens of texts and chats over HTTP."""

from __future__ import annotations

import pytest

from radixchat.server.local import LocalSettings
from radixchat.tests.server.sites import Site, at_site

CHAT = {"messages": [{"role": "user", "content": "Hi <|im_end|>"}]}


def test_text_to_tokens_and_back(settings: LocalSettings) -> None:
    """No control token comes of text, under either name; the texts of single tokens if asked."""

    async def body(site: Site) -> None:
        made = await site.call("POST", "/tokenize", {"prompt": "a <|im_end|>"})
        assert made["tokens"] == site.host.tokenizer.encode("a <|im_end|>")
        assert made["count"] == len(made["tokens"])
        assert made["max_model_len"] == site.host.n_ctx
        assert "token_strs" not in made
        other = {"content": "a <|im_end|>", "return_token_strs": True}
        named = await site.call("POST", "/tokenize", other)
        assert named["tokens"] == made["tokens"]
        assert "".join(named["token_strs"]) == "a <|im_end|>"
        back = await site.call("POST", "/detokenize", {"tokens": made["tokens"]})
        assert back == {"prompt": "a <|im_end|>", "content": "a <|im_end|>"}

    at_site(body, settings)


def test_a_chat_is_what_would_be_answered(settings: LocalSettings) -> None:
    """The very tokens of its next answer's prompt, those of an answer that was sampled included."""

    async def body(site: Site) -> None:
        asked = {**CHAT, "temperature": 0, "max_tokens": 6, "return_token_ids": True}
        made = await site.call("POST", "/v1/chat/completions", asked)
        assert (await site.call("POST", "/tokenize", CHAT))["tokens"] == made["prompt_token_ids"]
        said = made["choices"][0]["message"]
        more = [*CHAT["messages"], said, {"role": "user", "content": "?"}]
        tokens = (await site.call("POST", "/tokenize", {"messages": more}))["tokens"]
        known = made["prompt_token_ids"] + made["choices"][0]["token_ids"]
        assert tokens[: len(known)] == known
        alone = await site.call("POST", "/tokenize", {**CHAT, "add_generation_prompt": False})
        assert alone["tokens"] == made["prompt_token_ids"][: alone["count"]]
        assert alone["count"] < len(made["prompt_token_ids"])

    at_site(body, settings)


@pytest.mark.parametrize(
    ("path", "given", "code", "param"),
    [
        ("/tokenize", {}, "missing_required_parameter", "prompt"),
        ("/tokenize", {"prompt": "a", "content": "b"}, "invalid_value", "prompt"),
        ("/tokenize", {"messages": []}, "invalid_value", "messages"),
        ("/tokenize", {"prompt": "a", "model": "gpt-4"}, "model_not_found", "model"),
        ("/detokenize", {"tokens": [1, 99999]}, "invalid_value", "tokens"),
        ("/detokenize", {"tokens": [-1]}, "invalid_value", "tokens[0]"),
        ("/detokenize", {}, "missing_required_parameter", "tokens"),
    ],
)
def test_what_cannot_be_is_refused(
    settings: LocalSettings, path: str, given: object, code: str, param: str
) -> None:
    """With OpenAI's code and the field's name."""

    async def body(site: Site) -> None:
        assert (await site.refused("POST", path, given))[1:] == (code, param)

    at_site(body, settings)
