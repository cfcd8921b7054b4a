"""What a request is refused for before anything is computed, and that the others go on."""

from __future__ import annotations

from typing import Any

import pytest

from radixchat.engine.config import EngineConfig
from radixchat.engine.errors import ConfigError, InvalidRequest
from radixchat.engine.prompt_lookup import PromptLookup
from radixchat.engine.request import FinishReason, Request
from radixchat.engine.weights import Checkpoint
from radixchat.tests.engine.driver import GREEDY, make_engine, run


@pytest.mark.parametrize(
    ("tokens", "says"),
    [
        ([], "the prompt has no tokens"),
        ([1, -1], "token id -1 is none of the model's, which are 0 to "),
        ([2**31], f"token id {2**31} is none"),
        ([1, 2, 10**6, 3], "token id 1000000 is none"),
    ],
)
def test_tokens_that_no_model_knows(tiny: Checkpoint, tokens: list[int], says: str) -> None:
    """They are refused with the value; a request that runs is answered to its end."""
    engine = make_engine(tiny)
    engine.submit(Request(0, [1, 2, 3], GREEDY))
    engine.step()
    with pytest.raises(InvalidRequest, match=says):
        engine.submit(Request(1, tokens, GREEDY))
    outcomes = run(engine, [])
    assert outcomes[0].finish is FinishReason.LENGTH
    assert 1 not in outcomes


def test_last_token_of_the_vocabulary(tiny: Checkpoint) -> None:
    """Both ends of the range are tokens."""
    engine = make_engine(tiny)
    run(engine, [Request(0, [0, tiny.config.vocab_size - 1], GREEDY)])


def test_public_prefix_of_unknown_tokens(tiny: Checkpoint) -> None:
    """A setting that could never match is a mistake."""
    config = EngineConfig(public_prefixes=((1, tiny.config.vocab_size),))
    with pytest.raises(ConfigError, match=r"public_prefixes has the token id"):
        config.resolve(tiny.config)


NO_IDS: Any = [1.5]


def ask(**values: Any) -> Request:
    return Request(1, **{"tokens": [1, 2, 3], "sampling": GREEDY, **values})


@pytest.mark.parametrize(
    ("request_", "says"),
    [
        (ask(tokens=(1, 2)), r"tokens is \(1, 2\); allowed: a list"),
        (ask(tokens=[1, 2.5]), "token id 2.5 is not a whole number"),
        (ask(tokens=[True]), "token id True is not a whole number"),
        (ask(tokens=[float("nan")]), "token id nan is not a whole number"),
        (ask(namespace="tenant"), "namespace is 'tenant'; allowed: bytes"),
        (ask(conversation=5), "conversation is 5; allowed: a text or None"),
        (ask(priority=None), "priority is None; allowed: a whole number"),
        (ask(deadline="soon"), "deadline is 'soon'; allowed: seconds or None"),
        (ask(deadline=float("nan")), "deadline is nan"),
        (ask(stop_ids=frozenset({10**6})), "token id 1000000 is none of the model's"),
        (ask(stop_ids=frozenset({-5, 3})), "token id -5 is none"),
        (ask(lookup=PromptLookup([[1, 2**70]])), f"token id {2**70} is none"),
        (ask(lookup=PromptLookup([[], NO_IDS])), "token id 1.5 is not"),
    ],
)
def test_values_that_no_request_can_have(tiny: Checkpoint, request_: Request, says: str) -> None:
    """They are refused when it is submitted, and not met in a step that others are in."""
    engine = make_engine(tiny)
    with pytest.raises(InvalidRequest, match=says):
        engine.submit(request_)
    assert not engine.has_work


def test_a_request_is_submitted_once(tiny: Checkpoint) -> None:
    """Twice at once, twice while it runs, and again when it has ended."""
    engine = make_engine(tiny)
    request = Request(1, [1, 2, 3], GREEDY)
    with pytest.raises(InvalidRequest, match="request id 1 is in use"):
        engine.submit(request, request)
    engine.submit(request)
    with pytest.raises(InvalidRequest, match="request id 1 is in use"):
        engine.submit(Request(1, [4], GREEDY))
    engine.step()
    with pytest.raises(InvalidRequest, match="request 1 was submitted before"):
        engine.submit(request)
    assert run(engine, [])[1].finish is FinishReason.LENGTH
    with pytest.raises(InvalidRequest, match="request 1 was submitted before"):
        engine.submit(request)
