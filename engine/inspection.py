"""Whether a model can chat, from what describes it. Reads no weight and knows no source."""

from __future__ import annotations

from pathlib import Path

from radixchat.engine.gguf import read_gguf
from radixchat.engine.hf_config import is_of_transformers, read_hf_config
from radixchat.engine.template import ChatTemplate
from radixchat.engine.tokenizer import Tokenizer
from radixchat.engine.transformers_config import read_transformers_config


def inspect_description(path: Path) -> None:
    """Raise ModelLoadError when config, tokenizer or chat template are none that we can use.

    path: a .gguf file, or a folder, whose weights need not be there yet.
    """
    if path.is_dir():
        if is_of_transformers(path):
            read_transformers_config(path)
        else:
            read_hf_config(path)
        tokenizer = Tokenizer.from_directory(path)
    else:
        tokenizer = Tokenizer.from_gguf(read_gguf(path).fields)
    ChatTemplate.of(tokenizer)
