"""What a request is refused for before anything is computed, and that the others go on."""

from __future__ import annotations

import pytest

from radixchat.engine.config import EngineConfig
from radixchat.engine.errors import ConfigError, InvalidRequest
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
