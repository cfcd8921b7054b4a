"""What `bench speculation` asks: texts to repeat with a change, second answers, and plain chat.

Owns the prompts and what each repeats. Knows no engine: a task says what is asked and how, not what
it costs.
"""

from __future__ import annotations

from dataclasses import dataclass

REPEAT, EDITED, REGENERATE, CHAT = "repeat", "edited turn", "regenerate", "open chat"
# The first three are the edit-and-repeat set: much of their answers was said before.
EDIT_AND_REPEAT = (REPEAT, EDITED, REGENERATE)


@dataclass(frozen=True, slots=True)
class Task:
    """One answer to measure.

    first: what is asked before, in a branch that is left then. With the same words it gets a second
    answer, which is sampled; with others it is an edited turn.
    """

    kind: str
    name: str
    question: str
    first: str | None = None
    temperature: float = 0.0


_MEETING = (
    "The project meeting takes place on Monday at ten o'clock in room twelve. Please bring the "
    "printed plans, the list of open questions and your notes from last week. Anna will show the "
    "new drawings of the bridge, and Peter will explain why the delivery of the steel was late. "
    "After the meeting there will be coffee in the kitchen on the second floor."
)
_RECIPE = (
    "Pancakes for four\n\n"
    "1. Put 250 grams of flour into a large bowl.\n"
    "2. Add half a litre of milk and stir until the batter is smooth.\n"
    "3. Beat three eggs and mix them with the batter.\n"
    "4. Add a pinch of salt and leave the batter to rest for twenty minutes.\n"
    "5. Heat a little butter in a pan and bake thin pancakes on both sides.\n"
    "6. Serve them hot with sugar, jam or apple sauce."
)
_CODE = (
    "def read_prices(path):\n"
    "    prices = {}\n"
    "    with open(path) as file:\n"
    "        for line in file:\n"
    "            name, price = line.split(',')\n"
    "            prices[name.strip()] = float(price)\n"
    "    return prices\n\n\n"
    "def total(prices, basket):\n"
    "    result = 0.0\n"
    "    for name, count in basket.items():\n"
    "        result += prices[name] * count\n"
    "    return result\n"
)
_LETTER = (
    "Dear Mr Brown,\n\n"
    "thank you for your order of 3 March. We are sorry to tell you that the blue chairs are sold "
    "out at the moment. We expect new ones in about four weeks. If you would like to wait, there "
    "is nothing you have to do. If not, please call us, and we will send your money back.\n\n"
    "Kind regards,\nClara Smith"
)
_LIST = (
    "- Lisbon, Portugal: 545,000 inhabitants\n"
    "- Madrid, Spain: 3,300,000 inhabitants\n"
    "- Paris, France: 2,100,000 inhabitants\n"
    "- Brussels, Belgium: 1,200,000 inhabitants\n"
    "- Vienna, Austria: 2,000,000 inhabitants\n"
    "- Prague, Czech Republic: 1,300,000 inhabitants\n"
    "- Warsaw, Poland: 1,800,000 inhabitants"
)
_JSON = (
    '{"name": "garden", "width": 12, "height": 8, "plants": [\n'
    '  {"kind": "rose", "row": 1, "column": 4, "water": "daily"},\n'
    '  {"kind": "tulip", "row": 2, "column": 7, "water": "weekly"},\n'
    '  {"kind": "lavender", "row": 5, "column": 2, "water": "weekly"},\n'
    '  {"kind": "tomato", "row": 7, "column": 9, "water": "daily"}\n'
    "]}"
)
_STORY = (
    "Once upon a time a small fox lived at the edge of a deep forest. Every morning the fox went "
    "down to the river and watched the boats. One day an old sailor waved to the fox and threw a "
    "piece of bread on the bank. From that day on the fox waited for the sailor, and the sailor "
    "always had some bread for the fox."
)


def _repeat(name: str, change: str, text: str) -> Task:
    return Task(REPEAT, name, f"{change} Write the whole text again:\n\n{text}")


def tasks() -> list[Task]:
    """All tasks, the kinds in turn."""
    planets = "Explain in one paragraph why the planets of the solar system move around the sun."
    bicycle = "How do I mend a flat tyre of a bicycle? List the steps."
    sums = "Write a Python function that returns the sum of all even numbers in a list."
    seasons = "What are the four seasons like in England? One sentence for each."
    return [
        _repeat("meeting", "Change Monday to Tuesday in this text.", _MEETING),
        _repeat("recipe", "Replace milk by water in this recipe.", _RECIPE),
        _repeat("code", "Rename the variable result to amount in this code.", _CODE),
        _repeat("letter", "Replace Brown by Miller in this letter.", _LETTER),
        _repeat("list", "Add the line about Rome at the end of this list.", _LIST),
        _repeat("json", "Change the width to 20 in this JSON.", _JSON),
        _repeat("story", "Correct the spelling of this text, and change nothing else.", _STORY),
        Task(EDITED, "planets", planets.replace("one paragraph", "a short paragraph"), planets),
        Task(EDITED, "sums", sums.replace("even", "odd"), sums),
        Task(EDITED, "seasons", seasons.replace("England", "Scotland"), seasons),
        Task(REGENERATE, "bicycle", bicycle, bicycle, temperature=0.5),
        Task(REGENERATE, "sums", sums, sums, temperature=0.5),
        Task(REGENERATE, "planets", planets, planets, temperature=0.5),
        Task(CHAT, "holiday", "Tell me about a place that is good for a quiet holiday."),
        Task(CHAT, "sky", "Why is the sky blue?"),
        Task(CHAT, "advice", "I cannot sleep well. What could I try?"),
        Task(CHAT, "poem", "Write a poem about the sea in winter.", temperature=0.8),
        Task(CHAT, "history", "What was the Silk Road?", temperature=0.8),
        Task(CHAT, "story", "Tell me a story about a clockmaker.", temperature=0.8),
    ]
