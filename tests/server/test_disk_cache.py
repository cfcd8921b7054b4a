"""A service over a folder of pages: warm after a restart, told as it is, forgotten everywhere."""

from __future__ import annotations

import base64
import contextlib
import json
import sqlite3
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from radixchat.engine.errors import ConfigError
from radixchat.engine.tiers.disk_administration import disk_folders
from radixchat.engine.tiers.disk_store import DiskStore
from radixchat.server.asks import InputMessage, NewTurn
from radixchat.server.disk_cache import read_key
from radixchat.server.encode import Encoder
from radixchat.server.event_reader import response_event
from radixchat.server.exposition import Exposition
from radixchat.server.local import LocalSettings, load_model
from radixchat.server.metrics import Metrics
from radixchat.server.protocol import CacheReport, ResponseCreated, ResponseDone
from radixchat.server.response import LiveResponse
from radixchat.server.service import ChatService
from radixchat.tests.server.services import GREEDY, finish, serve

LONG_TEXT = "tell me a long story " * 12
PAGE = 16


@pytest.fixture
def disk(settings: LocalSettings, tmp_path: Path) -> LocalSettings:
    """With a folder, and a gate that is open: a tiny model computes as fast as it reads."""
    return replace(
        settings,
        disk_cache_bytes=1 << 30,
        disk_cache_folder=tmp_path / "kv",
        tier_gate="always",
    )


def first_turn(settings: LocalSettings, text: str = LONG_TEXT) -> tuple[str, ResponseDone]:
    """A conversation of one turn, in a process that ends."""

    async def body(service: ChatService) -> tuple[str, ResponseDone]:
        conversation = await service.create_conversation()
        return conversation, await finish(service.send(conversation, text, GREEDY))

    return serve(body, settings)


def again(settings: LocalSettings, conversation: str) -> ResponseDone:
    async def body(service: ChatService) -> ResponseDone:
        return await finish(service.send(conversation, "And then?", GREEDY))

    return serve(body, settings)


def rest_of_page(done: ResponseDone) -> int:
    """Of what a first turn has computed, so much is in whole pages."""
    computed = done.usage.input_tokens + (done.usage.kept_tokens or 0)
    return computed - computed % PAGE


def sums(usage_of: ResponseDone) -> bool:
    usage = usage_of.usage
    below = usage.host_tokens + usage.disk_tokens + usage.store_tokens
    return usage.device_tokens + below + usage.computed_tokens == usage.input_tokens


def test_a_restart_is_warm_and_says_so(disk: LocalSettings, settings: LocalSettings) -> None:
    """The second process has the whole pages of the first from the disk; the text is the same."""
    conversation, first = first_turn(disk)
    assert first.usage.sources == ()

    async def body(service: ChatService) -> tuple[CacheReport, ResponseDone, Mapping[str, Any]]:
        report = await service.inspect(conversation=conversation)
        tree = await service.tree(conversation, warmth=True)
        assert sum(message.cached or 0 for message in tree) == rest_of_page(first)
        done = await finish(service.send(conversation, "And then?", GREEDY))
        return report, done, await service.stats()

    report, done, stats = serve(body, disk)
    assert {segment.state for segment in report.segments} == {"disk", "computed"}
    assert report.cached_tokens == rest_of_page(first)
    assert report.source == "disk"
    usage = done.usage
    assert (usage.device_tokens, usage.disk_tokens) == (0, rest_of_page(first))
    assert sums(done)
    turn = done.to_turn()
    assert turn["x_cache"]["source"] == "disk"
    assert turn["timings"]["cache_disk_n"] == usage.disk_tokens
    assert turn["usage"]["input_tokens_details"].keys() == {"cached_tokens", "cache_write_tokens"}
    assert done.miss is not None
    assert done.miss.reason == "partial_page"
    assert stats["disk_restored_tokens"] == usage.disk_tokens
    assert "below the pool" in str(stats["engine"])

    async def cold(service: ChatService) -> ResponseDone:
        return await finish(service.regenerate(conversation, GREEDY))

    alone = serve(cold, settings)
    assert alone.usage.cached_tokens == 0
    assert (alone.input_ids, alone.output_ids) == (done.input_ids, done.output_ids)


def test_without_tiers_nothing_is_said_of_them(settings: LocalSettings) -> None:
    """Neither in the engine's line nor in its figures, nor in a turn."""

    async def body(service: ChatService) -> None:
        conversation = await service.create_conversation()
        await finish(service.send(conversation, LONG_TEXT, GREEDY))
        done = await finish(service.send(conversation, "And then?", GREEDY))
        assert done.usage.sources == (("memory", done.usage.cached_tokens),)
        assert done.to_turn()["x_cache"] is None
        stats = await service.stats()
        assert "below" not in str(stats["engine"])
        assert not any(name.startswith(("host_", "disk_")) for name in stats)
        await service.open_conversation(conversation)

    serve(body, settings)


def test_a_closed_gate_says_why(disk: LocalSettings) -> None:
    """What is on the disk is computed again; the miss, the turn and the picture say that."""
    conversation, _ = first_turn(disk)
    shut = replace(disk, tier_gate="never")

    async def body(service: ChatService) -> ResponseDone:
        report = await service.inspect(conversation=conversation)
        assert report.cached_tokens == 0, "what would not come back is not claimed"
        return await finish(service.send(conversation, "And then?", GREEDY))

    done = serve(body, shut)
    assert done.usage.cached_tokens == 0
    assert done.usage.not_restored == "the gate is shut"
    assert done.miss is not None
    assert done.miss.reason == "not_restored"
    assert done.to_turn()["x_cache"]["not_restored"] == "the gate is shut"


def test_over_the_wire_and_out_of_the_store(disk: LocalSettings) -> None:
    """Segments name the tier; the wire's reader and the store give the same usage again."""
    conversation, first = first_turn(disk)

    async def body(service: ChatService) -> None:
        ask = NewTurn((InputMessage("user", "And then?"),), conversation)
        response = await service.begin(ask, GREEDY, report=True)
        assert isinstance(response, LiveResponse)
        events = [event async for event in response.events()]
        created, done = events[0], events[-1]
        assert isinstance(created, ResponseCreated)
        assert isinstance(done, ResponseDone)
        (report,) = [event for event in events if isinstance(event, CacheReport)]
        states = [(part.start, part.end) for part in report.segments if part.state == "disk"]
        assert sum(end - start for start, end in states) == rest_of_page(first)
        encoder = Encoder(None, True, "tiny")
        encoder.events(created)
        last = json.loads(json.dumps(encoder.events(done)[-1]))
        read = response_event(last)
        assert isinstance(read, ResponseDone)
        assert read.usage == done.usage
        assert last["response"]["x_cache"]["source"] == "disk"
        service.host.drop(response.id)
        stored = await service.response(response.id)
        assert stored.done is not None
        assert stored.done.usage.disk_tokens == done.usage.disk_tokens

    serve(body, disk)


def test_metrics_tell_the_tiers(disk: LocalSettings) -> None:
    """Tokens by tier, pages and bytes, reads, what the gate knows."""
    conversation, first = first_turn(disk)

    async def body(service: ChatService) -> str:
        metrics = Metrics()
        service.host.observers.append(metrics)
        await finish(service.send(conversation, "And then?", GREEDY))
        return (await Exposition(service.host, metrics, "1").text()).decode()

    text = serve(body, disk)
    found = dict(line.rsplit(" ", 1) for line in text.splitlines() if not line.startswith("#"))
    tokens = float(rest_of_page(first))
    assert float(found['radixchat_cached_tokens_total{tier="disk"}']) == tokens
    assert float(found['radixchat_tier_restored_tokens_total{tier="disk"}']) == tokens
    assert float(found['radixchat_tier_pages{tier="disk"}']) >= tokens / PAGE
    assert float(found["radixchat_tier_disk_reads_total"]) >= tokens / PAGE
    assert float(found["radixchat_tier_prefetch_useful_ratio"]) == 1.0
    assert float(found['radixchat_tier_load_seconds_per_token{tier="disk"}']) > 0
    assert float(found["radixchat_tier_disk_off"]) == 0


def test_who_opens_a_conversation_has_it_read_ahead(disk: LocalSettings) -> None:
    """Before a word is said its pages are in memory; the turn takes them from there."""
    conversation, first = first_turn(disk)

    async def body(service: ChatService) -> None:
        await service.open_conversation(conversation)
        for _ in range(1000):
            pages = await service.host.engine.ask(lambda engine: _in_memory(engine))
            if pages == rest_of_page(first) // PAGE:
                break
        report = await service.inspect(conversation=conversation)
        assert report.source == "host"
        done = await finish(service.send(conversation, "And then?", GREEDY))
        assert done.usage.cached_tokens == rest_of_page(first)

    serve(body, disk)


def _in_memory(engine: Any) -> int:
    engine.collect()
    return len(engine.tiers.host)


def pages_in(folder: Path) -> int:
    return sum(kind.pages for kind in disk_folders(folder).kinds)


def test_what_is_deleted_is_in_no_tier(disk: LocalSettings) -> None:
    """No row of the index names a page of it, and no file of the folder has its bytes."""
    assert disk.disk_cache_folder is not None
    conversation, _ = first_turn(disk)
    other, _ = first_turn(disk, "something else entirely, and long enough " * 5)
    before = contents(disk.disk_cache_folder)

    async def delete(service: ChatService) -> None:
        await service.delete_conversation(conversation)

    serve(delete, disk)
    after = contents(disk.disk_cache_folder)
    assert after.keys() < before.keys()
    gone = [before[digest] for digest in before.keys() - after.keys()]
    assert len(gone) >= 10
    files = b"".join(path.read_bytes() for path in disk.disk_cache_folder.rglob("*.pages"))
    assert not any(page in files for page in gone)
    assert all(page in files for page in after.values())
    assert again(disk, other).usage.disk_tokens > 0


def test_what_is_not_kept_is_not_kept_on_the_disk(disk: LocalSettings) -> None:
    """Neither by a process that ends, nor once another finds what one that was killed has left."""
    assert disk.disk_cache_folder is not None
    assert disk.database is not None

    async def unkept(service: ChatService) -> None:
        conversation = await service.create_conversation(kept=False)
        await finish(service.send(conversation, LONG_TEXT, GREEDY))

    serve(unkept, disk)
    assert pages_in(disk.disk_cache_folder) == 0

    first_turn(disk)
    assert pages_in(disk.disk_cache_folder) > 0
    with contextlib.closing(sqlite3.connect(disk.database)) as db, db:
        # As a process leaves it that is killed.
        db.execute("UPDATE conversation SET kept = 0, owner = 'gone', updated_at = 0")

    async def nothing(service: ChatService) -> None:
        pass

    serve(nothing, disk)
    assert pages_in(disk.disk_cache_folder) == 0


def contents(folder: Path) -> dict[bytes, bytes]:
    """Each valid page's bytes, by its name."""
    db = sqlite3.connect(folder / "index.sqlite3")
    rows = db.execute(
        "SELECT s.digest, f.name, g.name, s.slot, f.stored_bytes FROM slots AS s"
        " JOIN segments AS g ON g.id = s.segment JOIN fingerprints AS f ON f.id = g.fingerprint"
        " WHERE s.crc IS NOT NULL"
    ).fetchall()
    db.close()
    found = {}
    for digest, kind, segment, slot, size in rows:
        slot_bytes = -(-size // 4096) * 4096
        (path,) = [p for p in (folder / kind).iterdir() if p.stem == segment or p.name == segment]
        with path.open("rb") as file:
            file.seek(slot * slot_bytes)
            found[bytes(digest)] = file.read(size)
    return found


def test_a_deletion_reaches_what_another_engine_has_kept(disk: LocalSettings) -> None:
    """Pages of another page size, and with the tier switched off, go too."""
    assert disk.disk_cache_folder is not None
    conversation, _ = first_turn(replace(disk, page_size=8))
    assert pages_in(disk.disk_cache_folder) > 0

    async def delete(service: ChatService) -> None:
        await service.delete_conversation(conversation)

    serve(delete, replace(disk, disk_cache_bytes=0))
    assert pages_in(disk.disk_cache_folder) == 0


def test_a_flush_reaches_the_disk(disk: LocalSettings) -> None:
    """What an operator has forgotten is computed again after a restart."""
    assert disk.disk_cache_folder is not None
    conversation, _ = first_turn(disk)

    async def flush(service: ChatService) -> None:
        await service.host.engine.ask(lambda engine: engine.flush(service.namespace))

    serve(flush, disk)
    assert pages_in(disk.disk_cache_folder) == 0
    assert again(disk, conversation).usage.cached_tokens == 0


def test_another_database_shares_nothing(disk: LocalSettings, tmp_path: Path) -> None:
    """Another secret, other roots, and a folder of its own in the folder."""
    assert disk.disk_cache_folder is not None
    first_turn(disk)
    _, done = first_turn(replace(disk, database=tmp_path / "other.db"))
    assert done.usage.cached_tokens == 0
    assert len(disk_folders(disk.disk_cache_folder).kinds) == 2


def test_no_cache_and_no_database_write_nothing(disk: LocalSettings, tmp_path: Path) -> None:
    """Nobody could come back to it."""
    for settings in (replace(disk, prefix_cache=False), replace(disk, database=None)):
        first_turn(settings)
    assert not (tmp_path / "kv").exists()


def test_keys(tmp_path: Path) -> None:
    """32 bytes as they are, or in base64 with a line's end; nothing else."""
    key, key_file = bytes(range(32)), tmp_path / "key"
    for written in (key, base64.b64encode(key), base64.b64encode(key) + b"\n"):
        key_file.write_bytes(written)
        assert read_key(key_file) == key
    for written in (b"", b"short", base64.b64encode(key[1:]), key + b"!", b"\xff" * 100):
        key_file.write_bytes(written)
        with pytest.raises(ConfigError, match="has no key"):
            read_key(key_file)
    key_file.unlink()
    with pytest.raises(ConfigError, match="No such file"):
        read_key(key_file)


def test_a_problem_turns_the_tier_off_and_answers_go_on(
    disk: LocalSettings, caplog: pytest.LogCaptureFixture
) -> None:
    """A folder that cannot be written: one warning, in words, and an answer."""
    assert disk.disk_cache_folder is not None
    disk.disk_cache_folder.mkdir()
    DiskStore(disk.disk_cache_folder, {"a": "b"}, 4096, 1 << 30).close()
    database = sqlite3.connect(disk.disk_cache_folder / "index.sqlite3")
    database.execute("PRAGMA user_version = 999")
    database.close()
    _, done = first_turn(disk)
    assert done.error is None
    warned = [record for record in caplog.records if "is off" in record.getMessage()]
    assert len(warned) == 1


def test_a_host_tier_alone(settings: LocalSettings) -> None:
    """Its size is told, and a page more than it has is refused."""
    loaded = load_model(replace(settings, host_cache_bytes=8 << 20, threads=1))
    assert loaded.tiers == "8 MiB of host memory"
    with pytest.raises(ConfigError, match="host_cache_bytes is 1"):
        load_model(replace(settings, host_cache_bytes=1))
