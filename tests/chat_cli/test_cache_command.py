"""`radixchat cache`: what is kept on the disk, looked at, verified, cleared; and by deletions."""

from __future__ import annotations

import json
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from radixchat.chat_cli.main import cli
from radixchat.chat_cli.paths import disk_cache_folder
from radixchat.server.local import LocalSettings
from radixchat.server.protocol import ResponseOptions
from radixchat.server.service import ChatService
from radixchat.tests.server.services import finish, serve

SHORT = ResponseOptions(temperature=0, max_output_tokens=4)


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Of the test's own."""
    monkeypatch.setenv("RADIXCHAT_CACHE_DIR", str(tmp_path / "cache"))
    return disk_cache_folder()


@pytest.fixture
def conversation(folder: Path, tiny_model: Path, tmp_path: Path) -> str:
    """A turn of more than a hundred tokens whose pages are on the disk."""
    settings = LocalSettings(
        str(tiny_model),
        database=tmp_path / "data" / "sessions.db",
        disk_cache_bytes=1 << 30,
        disk_cache_folder=folder,
    )

    async def body(service: ChatService) -> str:
        made = await service.create_conversation()
        await finish(service.send(made, "tell me a story " * 10, SHORT))
        return made

    return serve(body, replace(settings, tier_gate="always"))


def run(*arguments: str) -> Result:
    return CliRunner().invoke(cli, list(arguments))


def stat() -> dict[str, object]:
    found: dict[str, object] = json.loads(run("cache", "stat", "--json").stdout)
    return found


@pytest.mark.usefixtures("folder")
def test_nothing_is_there() -> None:
    """No folder is made, and nothing is wrong."""
    assert stat() == {"folder": str(disk_cache_folder()), "bytes": 0, "kinds": [], "problem": None}
    assert run("cache", "verify").output == "0 pages as written, 0 damaged and removed\n"
    assert run("cache", "clear").output == "removed 0 pages, 0 B\n"
    assert not disk_cache_folder().exists()


def test_json_is_utf_8(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Whatever the locale says."""
    monkeypatch.setenv("RADIXCHAT_CACHE_DIR", str(tmp_path / "größe"))
    told = CliRunner(charset="latin-1").invoke(cli, ["cache", "stat", "--json"])
    assert json.loads(told.stdout_bytes)["folder"] == str(disk_cache_folder())


@pytest.mark.usefixtures("conversation")
def test_stat_verify_clear() -> None:
    """A line for each kind; a flipped byte is found and removed; then all of it."""
    name, pages, size, _ = run("cache", "stat").stdout.split("\t")
    assert int(pages) > 5
    assert int(size) > 0
    (file,) = disk_cache_folder().rglob("*.pages")
    data = bytearray(file.read_bytes())
    place = next(i for i in range(0, len(data), 4096) if any(data[i : i + 64]))
    data[place] ^= 1
    file.write_bytes(data)
    verified = run("cache", "verify", "--json")
    assert json.loads(verified.stdout) == {"pages": int(pages) - 1, "damaged": {"damaged": 1}}
    assert verified.exit_code == 1
    assert run("cache", "verify").exit_code == 0
    assert run("cache", "clear", "nothing").exit_code == 2
    cleared = run("cache", "clear", name[:6], "--json")
    assert json.loads(cleared.stdout)["pages"] == int(pages) - 1
    assert stat()["kinds"] == []


def test_a_conversation_that_is_deleted_without_a_model(conversation: str) -> None:
    """`radixchat sessions delete` reaches the disk, too."""
    assert stat()["kinds"] != []
    deleted = run("sessions", "delete", conversation)
    assert deleted.exit_code == 0, deleted.output
    assert stat()["kinds"] == []


def test_it_needs_no_torch(tmp_path: Path) -> None:
    """Nor anything else that takes long."""
    code = "\n".join(
        (
            "import sys",
            "from radixchat.chat_cli.main import cli",
            "import radixchat.engine.tiers.disk_administration",
            "import radixchat.engine.tiers.disk_forgetting",
            "print('torch' in sys.modules)",
        )
    )
    ran = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=True, timeout=60
    )
    assert ran.stdout == "False\n"


@pytest.mark.usefixtures("conversation")
def test_a_folder_of_somebody_else(folder: Path) -> None:
    """It is told, and left alone."""
    (folder / "CACHEDIR.TAG").unlink()
    for verb in ("stat", "verify", "clear"):
        refused = run("cache", verb)
        assert refused.exit_code == 1
        assert "no folder of radixchat's" in refused.output
    assert list(folder.rglob("*.pages"))
