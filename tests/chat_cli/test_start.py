"""The prompt that comes before the model: in a pseudo-terminal, with loadings that stand still."""

from __future__ import annotations

import signal
from collections.abc import Iterator
from pathlib import Path

import pytest

from radixchat.chat_cli.settings import ChatSettings
from radixchat.server.store import Store
from radixchat.tests.chat_cli.chat_terminal import ChatTerminal
from radixchat.tests.chat_cli.gated_model import GatedModel
from radixchat.tests.chat_cli.scripted import messages_of, run_script, tiny_settings

pytestmark = pytest.mark.slow

BRIEF = ("--threads", "1", "--temperature", "0", "--max-tokens", "4")
LONG = ("--threads", "1", "--max-tokens", "3000")
PROMPT = r"^> ?\Z"


@pytest.fixture
def settings(tiny_model: Path, tmp_path: Path) -> ChatSettings:
    return tiny_settings(tiny_model, tmp_path / "data" / "sessions.db")


@pytest.fixture
def gated(tiny_model: Path, tmp_path: Path) -> GatedModel:
    return GatedModel(tiny_model, tmp_path / "gated")


@pytest.fixture
def loading(gated: GatedModel) -> Iterator[ChatTerminal]:
    """A chat at its prompt, whose model stands at the gate."""
    with ChatTerminal("chat", "-m", str(gated.folder), *BRIEF) as chat:
        chat.wait_for(PROMPT)
        yield chat


def said(settings: ChatSettings) -> list[str]:
    """The messages of the last conversation."""
    return [f"{message.role}: {message.text}" for message in messages_of(settings)]


def test_what_is_entered_meanwhile(
    loading: ChatTerminal, gated: GatedModel, settings: ChatSettings
) -> None:
    """It waits, with a line that says for what, and is answered when the model is there."""
    loading.enter("hello")
    loading.wait_for(r"> hello\nloading gated …\Z")
    gated.open()
    loading.answered(1)
    assert "loading" not in loading.text
    loading.type("\x04")
    assert loading.exit_code() == 0
    assert said(settings)[0] == "user: hello"


def test_ctrl_c_gives_it_back(
    loading: ChatTerminal, gated: GatedModel, settings: ChatSettings
) -> None:
    """The message is in the line again, and can be sent when the model is there."""
    loading.enter("hello")
    loading.wait_for("loading gated …")
    loading.type("\x03")
    loading.wait_for(r"error: stopped; nothing was sent, the model is not loaded yet\n> hello\Z")
    gated.open()
    loading.enter(" again")
    loading.answered(1)
    loading.type("\x04")
    assert loading.exit_code() == 0
    assert said(settings)[0] == "user: hello again"


@pytest.mark.parametrize(
    ("leave", "code"),
    [
        ("\x04", 0),
        ("\x03\x03hello\r\x03\x03", 130),
        (signal.SIGTERM, 143),
    ],
)
def test_leaving(loading: ChatTerminal, leave: str | signal.Signals, code: int) -> None:
    """At once, by every way, with its exit code: nobody waits for the model."""
    if isinstance(leave, signal.Signals):
        loading.process.kill(leave)
    elif code == 130:
        loading.enter("hello")
        loading.wait_for("loading gated …")
        loading.type("\x03")
        loading.wait_for(r"> hello\Z")
        loading.type("\x03\x03")
    else:
        loading.type(leave)
    assert loading.exit_code() == code
    assert "Traceback" not in loading.text


def test_leaving_while_a_message_waits(loading: ChatTerminal) -> None:
    """A signal ends the waiting, too."""
    loading.enter("hello")
    loading.wait_for("loading gated …")
    loading.process.kill(signal.SIGHUP)
    assert loading.exit_code() == 129
    assert "Traceback" not in loading.text


def test_continuing(gated: GatedModel, settings: ChatSettings) -> None:
    """-c shows where the conversation stands, and reading commands are performed, meanwhile."""
    run_script(settings, "the first", "the last")
    with ChatTerminal("chat", "-c", "-m", str(gated.folder), *BRIEF, columns=200) as chat:
        chat.wait_for(PROMPT)
        assert "2 turns" in chat.text
        assert "… 1 earlier turn\n> the last\n" in chat.text
        chat.enter("/search first")
        chat.wait_for(r"/search first\n(?s:.)*first(?s:.)*^> ?\Z")
        chat.enter("/list")
        chat.wait_for(r"/list\n(?s:.)*the first(?s:.)*^> ?\Z")
        chat.enter("/export md")
        chat.wait_for(r"/export md\n(?s:.)*the last(?s:.)*^> ?\Z")
        assert "loading" not in chat.text
        chat.enter("and now?")
        chat.wait_for("loading gated …")
        gated.open()
        chat.answered(1)
        chat.type("\x04")
        assert chat.exit_code() == 0
    assert len(said(settings)) == 6


def test_the_model_is_gone(settings: ChatSettings, tiny_model: Path) -> None:
    """A chat without a model can be read, says what is wrong, and takes another model."""
    run_script(settings, "the first")
    with ChatTerminal("chat", "-c", "-m", "./gone.gguf", *BRIEF, columns=200) as chat:
        chat.wait_for("error: there is no file ./gone.gguf")
        chat.wait_for("note: conversations can be read, .*`/model NAME` loads another model")
        chat.wait_for(PROMPT)
        assert "> the first" in chat.text
        chat.enter("/search first")
        chat.wait_for(r"/search first\n(?s:.)*first(?s:.)*^> ?\Z")
        chat.enter("hello")
        chat.wait_for(r"error: no model is loaded: there is no file ./gone.gguf\n> hello\Z")
        chat.type("\x03")
        chat.wait_for(PROMPT)
        chat.enter("/model ./gone.gguf")
        chat.wait_for(r"error: there is no file ./gone.gguf", times=2)
        chat.enter(f"/model {tiny_model}")
        chat.enter("hello")
        chat.answered(1)
        chat.enter("/exit")
        assert chat.exit_code() == 0
    assert len(said(settings)) == 4


def test_a_model_file_that_is_damaged(tiny_model: Path, tmp_path: Path) -> None:
    """It is told above the line, which keeps what was typed into it."""
    gated = GatedModel(tiny_model, tmp_path / "damaged")
    weights = gated.folder / "model.safetensors"
    weights.write_bytes(weights.read_bytes()[:100])
    with ChatTerminal("chat", "-m", str(gated.folder), *BRIEF, columns=200) as chat:
        chat.wait_for(PROMPT)
        chat.type("hel")
        chat.wait_for(r"^> hel\Z")
        gated.open()
        chat.wait_for(r"^error: .*damaged(?s:.)*\nnote: conversations can be read(?s:.)*> hel\Z")
        chat.enter("lo")
        chat.wait_for(r"error: no model is loaded: (?s:.)*> hello\Z")
        chat.type("\x03\x04")
        assert chat.exit_code() == 0


@pytest.mark.parametrize("end", ["eof", "twice", "SIGHUP", "SIGKILL"])
def test_what_is_not_to_be_kept(tiny_model: Path, settings: ChatSettings, end: str) -> None:
    """-n: nothing is left, by whichever way the chat ends; after SIGKILL when the next begins."""
    run_script(settings, "kept")
    with ChatTerminal("chat", "-n", "-m", str(tiny_model), *LONG) as chat:
        chat.wait_for(PROMPT)
        chat.enter("a secret")
        chat.wait_for(r"> a secret\n(?!loading )(?s:.)*\S\S\S")
        if end == "eof":
            chat.type("\x03")
            chat.wait_for("stopped by you")
            chat.wait_for(PROMPT)
            chat.type("\x04")
            assert chat.exit_code() == 0
        elif end == "twice":
            chat.type("\x03")
            chat.wait_for("stopped by you")
            chat.type("\x03")
            assert chat.exit_code() == 130
        elif end == "SIGKILL":
            chat.process.kill(signal.SIGKILL)
            chat.process.wait()
        else:
            number = signal.Signals[end]
            chat.process.kill(number)
            assert chat.exit_code() == 128 + number
        assert "goes on here" not in chat.text
    if end == "SIGKILL":
        assert b"a secret" in everything_in(settings.database)
    run_script(settings, "next")
    assert b"a secret" not in everything_in(settings.database)
    with Store(settings.database) as store:
        listed = store.conversations(principal="local", limit=9)
        assert [row.opening for row in listed] == ["next", "kept"]
        assert store.verify() == []


def everything_in(database: Path) -> bytes:
    """What the database and its log have on the disk."""
    return b"".join(file.read_bytes() for file in database.parent.glob(f"{database.name}*"))
