"""How byte-level vocabularies cut text into words before merging, by the name a GGUF gives it.

A GGUF holds no expression, only a name (`tokenizer.ggml.pre`); each row here is what the
checkpoints converted under that name have in their own tokenizer.json. A wrong cut loads,
answers, and is quietly worse, so a name that is not here is refused.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from types import MappingProxyType

from tokenizers import Regex, normalizers, pre_tokenizers

_LLAMA3 = (
    r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}"
    r"| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+"
)
_QWEN2 = _LLAMA3.replace(r"\p{N}{1,3}", r"\p{N}")
_UPPER = r"\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}"
_LOWER = r"\p{Ll}\p{Lm}\p{Lo}\p{M}"
_TEKKEN = (
    rf"[^\r\n\p{{L}}\p{{N}}]?[{_UPPER}]*[{_LOWER}]+|[^\r\n\p{{L}}\p{{N}}]?[{_UPPER}]+[{_LOWER}]*"
    r"|\p{N}| ?[^\s\p{L}\p{N}]+[\r\n/]*|\s*[\r\n]+|\s+(?!\S)|\s+"
)
_GPT2 = r"'s|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+"


@dataclass(frozen=True, slots=True)
class PreTokenization:
    """One way of cutting.

    nfc: text is composed first. ignore_merges: a word that is a token is taken whole, even
    where merging alone would not reach it.
    """

    build: Callable[[], pre_tokenizers.PreTokenizer]
    nfc: bool = False
    ignore_merges: bool = False

    def normalizer(self) -> normalizers.Normalizer | None:
        """What happens to text before it is cut."""
        return normalizers.NFC() if self.nfc else None


def _patterns(*patterns: str) -> Callable[[], pre_tokenizers.PreTokenizer]:
    """Cut at each pattern in turn, then spell each word in the byte alphabet."""

    def build() -> pre_tokenizers.PreTokenizer:
        cuts = [pre_tokenizers.Split(Regex(pattern), "isolated") for pattern in patterns]
        spell = pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False)
        return pre_tokenizers.Sequence([*cuts, spell])

    return build


def _digits_then_gpt2() -> pre_tokenizers.PreTokenizer:
    return pre_tokenizers.Sequence(
        [
            pre_tokenizers.Digits(individual_digits=True),
            pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=True),
        ]
    )


def _gpt2() -> pre_tokenizers.PreTokenizer:
    return pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=True)


_LLAMA3_CUT = PreTokenization(_patterns(_LLAMA3), ignore_merges=True)

PRE_TOKENIZATIONS: Mapping[str, PreTokenization] = MappingProxyType(
    {
        "smollm": PreTokenization(_digits_then_gpt2),
        "starcoder": PreTokenization(_digits_then_gpt2),
        "refact": PreTokenization(_digits_then_gpt2),
        "gpt-2": PreTokenization(_gpt2),
        "llama-bpe": _LLAMA3_CUT,
        "llama3": _LLAMA3_CUT,
        "llama-v3": _LLAMA3_CUT,
        "smaug-bpe": _LLAMA3_CUT,  # Llama 3's without a BOS: SmolLM3 among others
        "qwen2": PreTokenization(_patterns(_QWEN2), nfc=True),
        "deepseek-r1-qwen": PreTokenization(_patterns(_QWEN2)),
        "tekken": PreTokenization(_patterns(_TEKKEN), ignore_merges=True),
        # What a converter writes that did not recognise the tokenizer, as llama.cpp reads it.
        "default": PreTokenization(
            _patterns(r"[\p{P}\$\+<=>\^~\|]+", _GPT2, r"\p{N}+", "[0-9][0-9][0-9]")
        ),
    }
)
