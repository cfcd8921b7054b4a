"""Draws the labels of huge texts in the input line. Knows no text: `pasted_text.py` has them."""

from __future__ import annotations

from bisect import bisect_right

from prompt_toolkit.formatted_text import StyleAndTextTuples
from prompt_toolkit.layout.processors import Processor, Transformation, TransformationInput
from prompt_toolkit.layout.utils import explode_text_fragments

from radixchat.chat_cli.pasted_text import PastedTexts

_STYLE = " ansiyellow"


class PasteLabels(Processor):
    """Puts the labels where their characters stand; the cursor is before or after one, not in."""

    def __init__(self, texts: PastedTexts) -> None:
        self._texts = texts

    def apply_transformation(self, transformation_input: TransformationInput) -> Transformation:
        """One line of the input, drawn."""
        drawn: StyleAndTextTuples = []
        starts = [0]  # by a character of the line: where it is drawn
        for style, character, *_ in explode_text_fragments(transformation_input.fragments):
            label = self._texts.label(character)
            drawn.append((style, character) if label is None else (style + _STYLE, label))
            starts.append(starts[-1] + len(drawn[-1][1]))
        if len(drawn) == starts[-1]:
            return Transformation(transformation_input.fragments)
        last = len(starts) - 1
        return Transformation(
            drawn,
            # Behind the last character are spaces for the cursor.
            source_to_display=lambda at: starts[at] if at <= last else starts[last] + at - last,
            display_to_source=lambda at: (
                bisect_right(starts, at) - 1 if at <= starts[last] else last + at - starts[last]
            ),
        )
