"""POST /tokenize and /detokenize: text, or a whole chat, to exact tokens, and back.

Owns nothing: a chat's tokens are those that its next answer would be computed from. What is slow
for a million tokens is done beside the loop.
"""

from __future__ import annotations

import asyncio

from starlette.requests import Request
from starlette.routing import Route

from radixchat.server.api_error import invalid_value, missing
from radixchat.server.chat_ask import read_messages, read_offered
from radixchat.server.completions_http import completions_of, require_model
from radixchat.server.decode import decode_body
from radixchat.server.edge import edge_of
from radixchat.server.json_line import JsonLine
from radixchat.server.token_texts import TokenTexts
from radixchat.server.wire_text_completion import (
    Detokenized,
    DetokenizeRequest,
    Tokenized,
    TokenizeRequest,
)
from radixchat.server.wire_value import wire_dict


async def tokenize(request: Request) -> JsonLine:
    """The ids of a text or of a chat."""
    edge = edge_of(request)
    body = decode_body(TokenizeRequest, await request.body(), strict=edge.settings.strict)
    require_model(edge, body.model)
    ids = await _ids(request, body)

    def answer() -> JsonLine:
        texts = TokenTexts(edge.host.tokenizer)
        strings = tuple(map(texts.text, ids)) if body.return_token_strs else None
        told = Tokenized(
            tokens=ids, count=len(ids), max_model_len=edge.host.n_ctx, token_strs=strings
        )
        return JsonLine(wire_dict(told))

    return await asyncio.to_thread(answer)


async def detokenize(request: Request) -> JsonLine:
    """The text of some ids."""
    edge = edge_of(request)
    body = decode_body(DetokenizeRequest, await request.body(), strict=edge.settings.strict)
    require_model(edge, body.model)
    tokenizer = edge.host.tokenizer
    size = tokenizer.vocab_size

    def answer() -> JsonLine:
        wrong = next((token for token in body.tokens if token >= size), None)
        if wrong is not None:
            raise invalid_value("tokens", f"tokens has {wrong}; allowed: 0 to {size - 1}")
        text = tokenizer.decode(body.tokens)
        return JsonLine(wire_dict(Detokenized(prompt=text, content=text)))

    return await asyncio.to_thread(answer)


async def _ids(request: Request, body: TokenizeRequest) -> tuple[int, ...]:
    given = [text for text in (body.prompt, body.content) if text is not None]
    if len(given) + (body.messages is not None) > 1:
        raise invalid_value("prompt", "give one of prompt, content and messages")
    if given:
        encode = edge_of(request).host.tokenizer.encode
        return tuple(await asyncio.to_thread(encode, given[0]))
    if body.messages is None:
        raise missing("prompt")
    prompts = completions_of(request).prompts
    chat, use = read_messages(body.messages), read_offered(body.tools)
    if body.add_generation_prompt is False:
        return await prompts.without_question(chat, use)
    return (await prompts.prompt(chat, use)).ids


ROUTES = (
    Route("/tokenize", tokenize, methods=["POST"]),
    Route("/detokenize", detokenize, methods=["POST"]),
)
