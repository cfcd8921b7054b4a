"""The garbage collector at a start: off while a model is loaded, on afterwards."""

from __future__ import annotations

import gc
import weakref

import pytest

from radixchat.chat_cli.collection import no_collection


class Node:
    """An object in a cycle with itself, which only the collector can end."""

    def __init__(self) -> None:
        self.me = self


def test_what_came_in_the_block_is_not_looked_at_again() -> None:
    """It stays, however often the rest is collected."""
    try:
        with no_collection():
            assert not gc.isenabled()
            inside = weakref.ref(Node())
        outside = weakref.ref(Node())
        gc.collect()
        assert outside() is None
        assert inside() is not None
    finally:
        gc.unfreeze()
    gc.collect()
    assert inside() is None


def test_the_collector_is_on_again_after_an_error() -> None:
    """A model that cannot be loaded leaves it as it was."""
    try:
        with pytest.raises(OSError, match="no model"), no_collection():
            raise OSError("no model")
        assert gc.isenabled()
    finally:
        gc.unfreeze()
