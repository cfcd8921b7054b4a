"""A process of its own that uses a store, for the tests that kill it; prints what it has done.

store_process.py loop FILE     turns of one conversation for ever; after each commit a line
store_process.py turns FILE N  N turns, then one line
store_process.py churn FILE    conversations that are not kept, that are deleted, that stay; events
store_process.py hold FILE     begins a turn, saves a part of the answer, prints it, waits
store_process.py open          opens each file named on stdin, prints a conversation's id
"""

from __future__ import annotations

import json
import sys
from pathlib import Path

from radixchat.server.message import Answer, NewMessage
from radixchat.server.rows import Outcome
from radixchat.server.store import Store


def report(**facts: object) -> None:
    sys.stdout.write(json.dumps(facts) + "\n")
    sys.stdout.flush()


def begin(
    store: Store, conversation: str, text: str, event: tuple[str, str] | None = None
) -> tuple[str, str]:
    """The response's id and its question."""
    tip = store.conversation(conversation, principal="local").tip
    begun = store.begin_response(
        conversation=conversation,
        expected_tip=tip,
        parent=tip,
        user=NewMessage(text, tuple(text.encode())),
        options={},
        principal="local",
        render_hash="r",
        event=event,
    )
    return begun.id, begun.question


def one_turn(store: Store, conversation: str, number: int, *, tell: bool) -> None:
    response, question = begin(store, conversation, f"question {number}")
    if tell:
        report(tip=question)
    answer = ""
    for part in range(5):
        answer += f"part {part} " * 20
        store.save_partial(response, Answer(answer, tuple(answer.encode())))
        if tell:
            report(response=response, partial=answer)
    outcome = Outcome("completed", answer=Answer(answer, tuple(answer.encode())))
    tip = store.finish_response(response, outcome)
    if tell:
        report(tip=tip)


def loop(path: Path) -> None:
    with Store(path) as store:
        conversation = store.latest(principal="local") or store.create_conversation(
            principal="local"
        )
        report(conversation=conversation)
        number = 0
        while True:
            one_turn(store, conversation, number, tell=True)
            number += 1


def turns(path: Path, count: int) -> None:
    with Store(path) as store:
        conversation = store.create_conversation(principal="local")
        for number in range(count):
            one_turn(store, conversation, number, tell=False)
    report(conversation=conversation)


def churn(path: Path) -> None:
    with Store(path) as store:
        number = 0
        while True:
            passing = store.create_conversation(principal="local", kept=False)
            one_turn(store, passing, number, tell=False)
            gone = store.create_conversation(principal="local", system="S", listed=False)
            one_turn(store, gone, number, tell=False)
            stays = store.create_conversation(principal="local", system="S")
            event = (f"{stays} {number}", "digest")
            response, _ = begin(store, stays, f"question {number}", event=event)
            report(stays=stays, event=event, response=response)
            store.finish_response(response, Outcome("completed", answer=Answer("yes", (1,))))
            store.delete_conversation(gone, principal="local")
            report(gone=gone, passing=passing)
            number += 1


def hold(path: Path) -> None:
    with Store(path) as store:
        conversation = store.create_conversation(principal="local", system="Be brief.")
        response, question = begin(store, conversation, "question")
        store.save_partial(response, Answer("partial", (1, 2, 3)))
        report(conversation=conversation, response=response, question=question)
        sys.stdin.readline()
        report(
            answer=store.path(
                store.conversation(conversation, principal="local").tip, principal="local"
            )[-1].text
        )


def open_named() -> None:
    for line in sys.stdin:
        with Store(Path(line.rstrip("\n"))) as store:
            report(conversation=store.create_conversation(principal="local", title="first"))


def main(action: str, *arguments: str) -> None:
    if action == "loop":
        loop(Path(arguments[0]))
    elif action == "churn":
        churn(Path(arguments[0]))
    elif action == "turns":
        turns(Path(arguments[0]), int(arguments[1]))
    elif action == "hold":
        hold(Path(arguments[0]))
    else:
        open_named()


if __name__ == "__main__":
    main(*sys.argv[1:])
