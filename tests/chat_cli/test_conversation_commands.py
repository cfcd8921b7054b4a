"""What becomes of conversations besides being answered: done, refused, and where nothing is."""

from __future__ import annotations

import json
import stat
from collections.abc import AsyncIterator
from contextlib import aclosing, asynccontextmanager
from pathlib import Path

import pytest

from radixchat.chat_cli.background_client import BackgroundClient
from radixchat.chat_cli.backoff import Backoff
from radixchat.chat_cli.client import ChatClient, open_client
from radixchat.chat_cli.control_characters import without_controls
from radixchat.server.protocol import ResponseCreated, ResponseOptions
from radixchat.tests.chat_cli.chat_scene import ChatScene, in_chat
from radixchat.tests.slow_steps import slowed


class Says:
    """Somebody who always presses the same key; asked: the questions and the keys."""

    def __init__(self, key: str | None) -> None:
        self.asked: list[tuple[str, str]] = []
        self._key = key

    async def choose(self, question: str, keys: str) -> str | None:
        self.asked.append((question, keys))
        return self._key


@asynccontextmanager
async def answered_elsewhere(scene: ChatScene, conversation: str) -> AsyncIterator[ChatClient]:
    """While the block runs, another service on the same file answers there."""
    endless = ResponseOptions(temperature=0.0, max_output_tokens=1000)
    async with open_client(scene.settings) as other:
        with slowed(0.05):
            async with aclosing(other.send(conversation, "theirs", endless)) as events:
                assert isinstance(await anext(events), ResponseCreated)
                yield other


def test_a_new_conversation_leaves_the_old_one(tiny_model: Path, tmp_path: Path) -> None:
    """/new: the next message begins another; what was drawn and known is of the old one."""

    async def work(scene: ChatScene) -> None:
        assert await scene.do("/new") == ["new conversation"]
        await scene.do("one")
        first = scene.conversation
        await scene.do("/new", "two")
        assert scene.conversation != first
        assert await scene.texts() == ["two"]
        assert scene.dialogue.state.made == [first, scene.conversation]

    in_chat(tiny_model, tmp_path, work)


def test_a_fork_goes_on_apart(tiny_model: Path, tmp_path: Path) -> None:
    """/fork NAME: the same history, and from then on two conversations."""

    async def work(scene: ChatScene) -> None:
        assert "no turn yet" in await scene.refused("/fork apart")
        await scene.do("one")
        first, record = scene.conversation, scene.dialogue.state.last
        said = await scene.do("/fork  two  words ")
        assert said == [f'in a fork now: "two words" ({scene.conversation[:17]}, 1 turn)']
        assert scene.conversation != first
        assert scene.dialogue.state.last is record  # its history has the same last turn
        await scene.do("two")
        assert await scene.texts() == ["one", "two"]
        assert [m.text for m in await scene.client.messages(first) if m.role == "user"] == ["one"]
        assert (await scene.client.conversation(scene.conversation)).title == "two words"

    in_chat(tiny_model, tmp_path, work)


def test_list(tiny_model: Path, tmp_path: Path) -> None:
    """/list: the last twenty, by name or else by how they begin; the current one is marked."""

    async def work(scene: ChatScene) -> None:
        assert await scene.do("/list") == ["there is no conversation yet"]
        await scene.do("one", "/rename the first", "/new", "how it begins")
        here, named = await scene.do("/list")
        assert here.startswith(f"* {scene.conversation[:17]}  1 turn")
        assert here.endswith("how it begins")
        assert named.startswith("  conv_")
        assert named.endswith("  the first")
        for number in range(20):
            await scene.client.create_conversation(f"be {number}")
        assert len(await scene.do("/list")) == 20

    in_chat(tiny_model, tmp_path, work)


def test_switch(tiny_model: Path, tmp_path: Path) -> None:
    """/switch: by name or id; what is known, and what /new takes over, are the other one's."""

    async def work(scene: ChatScene) -> None:
        assert "'nowhere'" in await scene.refused("/switch nowhere")
        await scene.do("/system be brief", "one", "/rename brief")
        brief = scene.conversation
        await scene.do("/new", '/system ""', "two")
        plain = scene.conversation
        described = f'"brief" ({brief[:17]}, 1 turn)'
        assert await scene.do("/switch brief") == [f"in {described} now"]
        assert scene.conversation == brief
        assert [m.text for m in scene.dialogue.state.known][:2] == ["be brief", "one"]
        assert scene.dialogue.state.system == "be brief"
        assert scene.dialogue.state.last is None
        assert await scene.do("/switch BRIEF") == [f"this is {described} already"]
        await scene.do(f"/switch {plain}")
        assert scene.conversation == plain
        assert scene.dialogue.state.system is None
        await scene.do("three")  # nothing was done elsewhere
        assert "elsewhere" not in scene.errors.getvalue()

    in_chat(tiny_model, tmp_path, work)


def test_switch_shows_where_one_is(tiny_model: Path, tmp_path: Path) -> None:
    """On a terminal the end of the other conversation is shown, as when it is continued."""

    async def work(scene: ChatScene) -> None:
        await scene.do("one", "/new", "two")
        first = scene.dialogue.state.made[0]
        shown = scene.answers.tell()
        told, *tail = await scene.do(f"/switch {first}")
        assert told.startswith("in ")
        assert tail == ["> one", "this answer was cut short; /continue goes on with it"]
        assert scene.answers.tell() > shown

    in_chat(tiny_model, tmp_path, work, terminal=True)


def test_names_from_elsewhere_are_harmless(tiny_model: Path, tmp_path: Path) -> None:
    """A title that another client gave is shown without what a terminal obeys."""
    evil = "\x1b]52;c;aGk=\x07\r\x9b2Jname\nnext"

    async def work(scene: ChatScene) -> None:
        await scene.do("one")
        other = await scene.client.fork_conversation(scene.conversation, title=evil)
        await scene.do("/list", f"/switch {other.id}", "/search one", "/delete")
        said = scene.errors.getvalue()
        assert not {"\x1b", "\x07", "\x9b", "\r"} & set(said)
        assert "2Jname next" in said

    in_chat(tiny_model, tmp_path, work)


def test_branches(tiny_model: Path, tmp_path: Path) -> None:
    """/tree numbers the branches; /switch #N goes on in one of them."""

    async def work(scene: ChatScene) -> None:
        for nothing in ("/tree", "/switch #1"):
            assert "no turn yet" in await scene.refused(nothing)
        await scene.do("one", "/edit 1 other", "two")
        *tree, legend = await scene.do("/tree")
        [first] = [line for line in tree if "  #1" in line]
        [second] = [line for line in tree if "  #2" in line]
        assert ("← here" in first, "← here" in second) == (False, True)
        assert "/switch #N" in legend
        assert await scene.do("/switch #2") == ["this is branch #2 already"]
        assert await scene.do("/switch #1") == ["in branch #1 now"]
        assert await scene.texts() == ["one"]
        await scene.do("three")
        assert await scene.texts() == ["one", "three"]
        assert "elsewhere" not in scene.errors.getvalue()
        for wrong in ("#0", "#3", "#", "#x", "#99999999999"):
            refusal = await scene.refused(f"/switch {wrong}")
            assert refusal == f"error: there is no branch {wrong}; /tree shows #1 to #2"

    in_chat(tiny_model, tmp_path, work)


def test_branches_that_were_not_drawn(tiny_model: Path, tmp_path: Path) -> None:
    """A script goes to a branch by the number that it would be drawn with."""

    async def work(scene: ChatScene) -> None:
        await scene.do("one", "/edit 1 other", "/switch #1")
        assert await scene.texts() == ["one"]
        await scene.do("/undo", "/switch #2")
        assert await scene.texts() == ["other"]

    in_chat(tiny_model, tmp_path, work)


def test_a_tree_after_everything_was_taken_back(tiny_model: Path, tmp_path: Path) -> None:
    """What /undo took is still drawn, and can be gone back to."""

    async def work(scene: ChatScene) -> None:
        await scene.do("one", "/undo")
        assert any("one" in line for line in await scene.do("/tree"))
        await scene.do("/switch #1")
        assert await scene.texts() == ["one"]

    in_chat(tiny_model, tmp_path, work)


def test_rename(tiny_model: Path, tmp_path: Path) -> None:
    """/rename: one line of 1 to 200 characters; a second one of that name is told."""

    async def work(scene: ChatScene) -> None:
        assert "no turn yet" in await scene.refused("/rename early")
        await scene.do("one")
        assert await scene.do("/rename 日本 \t name\nof lines") == ['named "日本 name of lines"']
        assert (await scene.client.conversation(scene.conversation)).title == "日本 name of lines"
        await scene.do(f"/rename {'x' * 200}")
        assert "at most 200 characters, this has 201" in await scene.refused(f"/rename {'x' * 201}")
        assert "visible" in await scene.refused("/rename \u200b")
        assert "#" in await scene.refused("/rename #1")
        await scene.do("/rename same", "/new", "two")
        named, note = await scene.do("/rename same")
        assert named == 'named "same"'
        assert note.endswith("has this name too; /switch takes the ids of both")
        assert "may be" in await scene.refused("/switch same")

    in_chat(tiny_model, tmp_path, work)


def test_delete(tiny_model: Path, tmp_path: Path) -> None:
    """/delete: this conversation, after which one is in a new one; or another by its name."""

    async def work(scene: ChatScene) -> None:
        assert "no turn yet" in await scene.refused("/delete")
        assert "'nothing'" in await scene.refused("/delete nothing")
        await scene.do("one", "/rename first", "/new", "two")
        second = scene.conversation
        [deleted] = await scene.do("/delete first")
        assert deleted.startswith('deleted: "first" (conv_')
        assert scene.conversation == second
        assert await scene.do("/delete") == [
            f'deleted: "two" ({second[:17]}, 1 turn)',
            "new conversation",
        ]
        assert scene.dialogue.state.conversation is None
        assert await scene.client.conversations() == []
        await scene.do("three")
        assert await scene.texts() == ["three"]

    in_chat(tiny_model, tmp_path, work)


@pytest.mark.parametrize(("key", "stays"), [("n", True), (None, True), ("y", False)])
def test_who_can_be_asked_is_asked_before_a_deletion(
    tiny_model: Path, tmp_path: Path, key: str | None, stays: bool
) -> None:
    """Only a y deletes; Enter is the first key, and keeps it."""

    async def work(scene: ChatScene) -> None:
        scene.dialogue.chooser = somebody = Says(key)
        await scene.do("one")
        said = await scene.do("/delete")
        [(question, keys)] = somebody.asked
        assert question.startswith('delete "one" (conv_')
        assert keys == "ny"
        assert bool(await scene.client.conversations()) is stays
        assert said[0] == "nothing is deleted" if stays else said[0].startswith("deleted: ")

    in_chat(tiny_model, tmp_path, work)


def test_what_is_answered_elsewhere(tiny_model: Path, tmp_path: Path) -> None:
    """It is neither deleted nor moved to another branch; who goes there is told."""

    async def work(scene: ChatScene) -> None:
        await scene.do("one", "/edit 1 other", "/rename busy", "/new", "two")
        busy = (await scene.client.conversations())[-1].id
        assert isinstance(scene.client, BackgroundClient)
        scene.client.backoff = Backoff(busy_s=0)
        async with answered_elsewhere(scene, busy):
            assert busy in await scene.refused("/delete busy")
            told, note = await scene.do("/switch busy")
            assert told.startswith('in "busy"')
            assert note.startswith("note: it is being answered just now")
            before = await scene.client.messages(busy)
            for refused in ("/delete", "/switch #1", "/system other", "/undo"):
                assert "being answered elsewhere" in await scene.refused(refused)
            assert await scene.client.messages(busy) == before
        assert scene.dialogue.exit_code == 75

    in_chat(tiny_model, tmp_path, work)


def test_what_was_deleted_elsewhere(tiny_model: Path, tmp_path: Path) -> None:
    """Each command says that the conversation is not there; /new goes on."""

    async def work(scene: ChatScene) -> None:
        await scene.do("one")
        gone = scene.conversation
        await scene.client.delete_conversation(gone)
        for line in ("/tree", "/rename x", "/fork", "/delete", "/undo", "/system x", "/export md"):
            assert "deleted elsewhere; /new" in await scene.refused(line)
        await scene.do("/new", "two")
        assert await scene.texts() == ["two"]

    in_chat(tiny_model, tmp_path, work)


def test_system(tiny_model: Path, tmp_path: Path) -> None:
    """/system: of the conversation to come; or of this one, whose turns stay as they are."""

    async def work(scene: ChatScene) -> None:
        assert await scene.do("/system") == ["no system message"]
        assert await scene.do("/system be brief") == ["the conversation will begin with it"]
        await scene.do("one")
        assert await scene.do("/system") == ["be brief"]
        conversation, texts = scene.conversation, await scene.texts()
        [said] = await scene.do("/system be\nlong")
        assert said.startswith("the conversation begins with it now; the next turn computes ")
        assert (scene.conversation, await scene.texts()) == (conversation, texts)
        assert await scene.do("/system") == ["be", "long"]
        assert await scene.do("/system be\nlong") == ["that is the system message already"]
        [said] = await scene.do('/system ""')
        assert said.startswith("the conversation begins with no system message now")
        assert [m.role for m in scene.dialogue.state.known] == ["user", "assistant"]
        await scene.do("two")
        assert "elsewhere" not in scene.errors.getvalue()
        assert await scene.do("/new", '/system ""') == [
            "new conversation",
            "the conversation will begin without a system message",
        ]

    in_chat(tiny_model, tmp_path, work)


def test_what_a_changed_system_message_costs(tiny_model: Path, tmp_path: Path) -> None:
    """The tokens that are said are those that the next turn computes again."""

    async def work(scene: ChatScene) -> None:
        await scene.do("/system be brief", "one two three four", "five six seven eight")
        before = await scene.client.inspect(conversation=scene.conversation)
        [said] = await scene.do("/system say much about everything")
        tokens = int(said.split("computes ")[1].split(" ")[0])
        report = await scene.client.inspect(conversation=scene.conversation)
        assert tokens == report.input_tokens - report.cached_tokens
        assert tokens > before.input_tokens - before.cached_tokens

    in_chat(tiny_model, tmp_path, work)


def test_search(tiny_model: Path, tmp_path: Path) -> None:
    """/search: a line a message, with its conversation; nothing found is said, and no failure."""

    async def work(scene: ChatScene) -> None:
        assert await scene.do("/search needle") == ["no message has these words"]
        await scene.do("hay needle hay", "/rename stack", "/new", "a needle here")
        first, second = sorted(await scene.do("/search needle"))
        assert first.endswith("  stack: user: hay «needle» hay")
        assert second.endswith("  user: a «needle» here")
        await scene.do('/search "')
        assert scene.dialogue.exit_code == 0

    in_chat(tiny_model, tmp_path, work)


def test_save(tiny_model: Path, tmp_path: Path) -> None:
    """/save: the command that comes back to it; with a name it has that too."""

    async def work(scene: ChatScene) -> None:
        assert "no turn yet" in await scene.refused("/save")
        await scene.do("one")
        way = f"radixchat chat --session {scene.conversation} --db {scene.settings.database}"
        assert await scene.do("/save") == [way]
        assert await scene.do("/save my chat") == ['named "my chat"', way]
        assert (await scene.client.conversation(scene.conversation)).title == "my chat"

    in_chat(tiny_model, tmp_path, work)


def test_export_to_the_screen(tiny_model: Path, tmp_path: Path) -> None:
    """/export md|json: what the service writes, on standard output and nowhere else."""

    async def work(scene: ChatScene) -> None:
        assert "no turn yet" in await scene.refused("/export md")
        await scene.do("one")
        for kind, name in (("md", "markdown"), ("json", "json")):
            before = scene.answers.tell()
            assert await scene.do(f"/export {kind}") == []
            written = scene.answers.getvalue()[before:]
            text = await scene.client.export(scene.conversation, name)
            assert written.rstrip("\n") == without_controls(text).rstrip("\n")
        assert json.loads(written)

    in_chat(tiny_model, tmp_path, work)


def test_export_to_a_file(
    tiny_model: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A new file for its owner, never over another; what cannot be written is said."""
    monkeypatch.setenv("HOME", str(tmp_path))

    async def work(scene: ChatScene) -> None:
        await scene.do("one")
        [said] = await scene.do("/export md ~/my chat.md")
        path = tmp_path / "my chat.md"
        written = path.read_bytes()
        assert said == f"written to {path}, {len(written):,} bytes"
        assert written.decode() == await scene.client.export(scene.conversation, "markdown")
        assert stat.S_IMODE(path.stat().st_mode) == 0o600
        assert "exists already" in await scene.refused("/export json ~/my chat.md")
        assert path.read_bytes() == written
        assert "folder is missing" in await scene.refused(f"/export md {tmp_path}/no/where")
        assert "exists already" in await scene.refused(f"/export md {tmp_path}")

    in_chat(tiny_model, tmp_path, work)


def test_undo(tiny_model: Path, tmp_path: Path) -> None:
    """/undo, again and again, until there is no turn; what is known follows."""

    async def work(scene: ChatScene) -> None:
        assert "no turn yet" in await scene.refused("/undo")
        await scene.do("one", "two")
        assert await scene.do("/undo", "/undo") == ["taken back: two", "taken back: one"]
        assert list(scene.dialogue.state.known) == []
        assert "no turn" in await scene.refused("/undo")
        assert scene.dialogue.stored is None
        assert await scene.do("three") == []

    in_chat(tiny_model, tmp_path, work)
