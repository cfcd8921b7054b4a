"""What the engine's tests share: the tiny model, loaded once, and what is right for it."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing

import pytest
import torch

from radixchat.engine.engine import Engine
from radixchat.engine.tokenizer import Tokenizer
from radixchat.engine.weights import Checkpoint, load_checkpoint
from radixchat.tests.engine.driver import make_engine
from radixchat.tests.engine.grammar_model import Model
from radixchat.tests.engine.solo_answers import SoloAnswers
from radixchat.tests.tiny_model import VOCABULARY, tiny_model_directory


@pytest.fixture(scope="session", autouse=True)
def ready(compiled: None) -> None:
    """Nothing is left to compile when a test begins to count its time."""


@pytest.fixture(scope="session")
def tiny(tmp_path_factory: pytest.TempPathFactory) -> Checkpoint:
    """The tiny random model, loaded as any model is."""
    return load_checkpoint(tiny_model_directory(tmp_path_factory.mktemp("tiny")))


@pytest.fixture
def naive(tiny: Checkpoint) -> Engine:
    """No cache, one request at a time, prompts in one chunk."""
    return make_engine(tiny, prefix_cache=False, max_step_tokens=512, page_size=16)


@pytest.fixture(scope="session")
def solos(tiny: Checkpoint, tmp_path_factory: pytest.TempPathFactory) -> Iterator[SoloAnswers]:
    """The table of solo runs of the tiny model."""
    path = tiny_model_directory(tmp_path_factory.mktemp("tiny_tokenizer"))
    with closing(SoloAnswers(tiny, Tokenizer.from_directory(path))) as table:
        yield table


@pytest.fixture
def two_threads() -> Iterator[None]:
    """With more than one, torch adds up a single large row in parts, but several each whole."""
    before = torch.get_num_threads()
    torch.set_num_threads(2)
    yield
    torch.set_num_threads(before)


@pytest.fixture(scope="session")
def byte_model(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Model]:
    """Every byte is a token, 256 to 258 are control tokens, and five rows are no token."""
    directory = tiny_model_directory(tmp_path_factory.mktemp("tiny"))
    model = Model(Tokenizer.from_directory(directory), VOCABULARY)
    yield model
    model.compiler.close()
