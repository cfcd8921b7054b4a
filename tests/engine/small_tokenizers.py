"""Our tokenizers of the small vocabularies: a byte-level one and SentencePiece, for any text."""

from __future__ import annotations

import pytest

from radixchat.engine.tokenizer import Tokenizer
from radixchat.tests.engine.vocabularies import byte_level_fields, sentencepiece_fields

BYTE_LEVEL = Tokenizer.from_gguf(byte_level_fields())
SENTENCEPIECE = Tokenizer.from_gguf(sentencepiece_fields())
TOKENIZERS = [
    pytest.param(BYTE_LEVEL, id="byte-level"),
    pytest.param(SENTENCEPIECE, id="sentencepiece"),
]
