"""A model repository on the Hugging Face hub: which of its files are wanted, and fetching them.

The hub is whatever HF_ENDPOINT says; HF_HOME and HF_TOKEN hold as in huggingface_hub, whose cache
is copied from when it has a file already. Knows no name of ours and no final place.
"""

from __future__ import annotations

import glob
import hashlib
import json
import os
import shutil
import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from radixchat.engine.child_download import run_child
from radixchat.engine.errors import ModelLoadError
from radixchat.engine.hf_config import check_architectures
from radixchat.engine.safetensors_folder import INDEX, SINGLE

PUBLIC_ENDPOINT = "https://huggingface.co"
LISTING_TIMEOUT = 15.0
CONFIG = "config.json"
TOKENIZER = "tokenizer.json"
# What the readers of the two above look at beside them, if it is there.
OPTIONAL = (
    "generation_config.json",
    "tokenizer_config.json",
    "special_tokens_map.json",
    "chat_template.jinja",
)
# The fetching child. Its arguments come as JSON, so that no name is ever code.
_SNAPSHOT = (
    "import json, sys; from huggingface_hub import snapshot_download; "
    "snapshot_download(**json.loads(sys.argv[1]))"
)


@dataclass(frozen=True, slots=True)
class HubFile:
    """One file of a repository; sha256 only where the hub keeps one (large files)."""

    name: str
    num_bytes: int
    sha256: str | None


@dataclass(frozen=True, slots=True)
class HubRepository:
    """A repository at one commit."""

    id: str
    endpoint: str
    revision: str
    files: Sequence[HubFile]
    architectures: object  # the hub's reading of config.json; None where it has none

    def gguf(self, name: str) -> list[HubFile]:
        """One GGUF file; ModelLoadError names those that are there when it is not."""
        chosen = [file for file in self.files if file.name == name]
        if not chosen:
            raise ModelLoadError(f"{self.id} has no file {name}; {self._ggufs()}")
        return chosen

    def description(self) -> list[HubFile]:
        """config.json and the tokenizer: small, and enough to see whether we support the model.

        ModelLoadError when they, or weights to them, are not there.
        """
        by_name = self._by_name()
        if CONFIG not in by_name or not {SINGLE, INDEX} & by_name.keys():
            raise ModelLoadError(
                f"{self.id} has no {CONFIG} with safetensors at its top; {self._ggufs()}"
            )
        if self.architectures is not None:
            check_architectures(self.architectures, self.id)
        if TOKENIZER not in by_name:
            raise ModelLoadError(
                f"{self.id} has no {TOKENIZER}, and other tokenizer files are not supported; "
                f"{self._ggufs()}"
            )
        return [by_name[name] for name in (CONFIG, TOKENIZER, *OPTIONAL) if name in by_name]

    def weights(self) -> list[HubFile]:
        """The safetensors that go with the description."""
        by_name = self._by_name()
        if INDEX not in by_name:
            return [by_name[SINGLE]]
        shards = [n for n in by_name if n.startswith("model-") and n.endswith(".safetensors")]
        return [by_name[name] for name in (INDEX, *shards)]

    def _by_name(self) -> dict[str, HubFile]:
        return {file.name: file for file in self.files}

    def _ggufs(self) -> str:
        names = [file.name for file in self.files if file.name.endswith(".gguf")]
        if not names:
            return "it has no GGUF file either"
        return f"its GGUF files: {', '.join(f'{self.id}:{name}' for name in names)}"


def look_up(repository: str) -> HubRepository:
    """Ask the hub what a repository holds; ModelLoadError when it cannot say."""
    # Imported here: it costs 0.3 s, and most starts fetch nothing.
    from huggingface_hub import HfApi
    from huggingface_hub.errors import HfHubHTTPError, RepositoryNotFoundError

    endpoint = os.environ.get("HF_ENDPOINT", PUBLIC_ENDPOINT).rstrip("/")
    try:
        info = HfApi(endpoint=endpoint).model_info(
            repository, files_metadata=True, timeout=LISTING_TIMEOUT
        )
    except RepositoryNotFoundError as error:
        raise ModelLoadError(
            f"{endpoint} has no model {repository}, or does not show it without a token: check "
            "the name, accept the model's terms there, set HF_TOKEN"
        ) from error
    except HfHubHTTPError as error:
        raise ModelLoadError(f"{endpoint} refused {repository}: {_first_line(error)}") from error
    except Exception as error:
        # Every HTTP library below raises its own for "no network", and the library changes.
        raise ModelLoadError(
            f"{endpoint} cannot be reached for {repository}: {_first_line(error)}; check the "
            "network, HF_ENDPOINT and HF_HUB_OFFLINE, or give the path of a model that is here"
        ) from error
    return HubRepository(
        id=repository,
        endpoint=endpoint,
        revision=str(info.sha),
        files=[_hub_file(sibling) for sibling in info.siblings or []],
        architectures=(info.config or {}).get("architectures"),
    )


def fetch_files(
    repository: HubRepository,
    files: Sequence[HubFile],
    staging: Path,
    watch: Callable[[int], None],
) -> Path:
    """Fetch files into a folder in staging, check them, and return the folder.

    The same folder every time, so files can come in several goes, and go on with what a killed
    attempt left. Raises ModelLoadError.
    """
    folder = staging / "files"
    arguments = {
        "repo_id": repository.id,
        "revision": repository.revision,
        "endpoint": repository.endpoint,
        "local_dir": str(folder),
        "allow_patterns": [glob.escape(file.name) for file in files],
    }
    command = [sys.executable, "-P", "-c", _SNAPSHOT, json.dumps(arguments)]
    environment = {"HF_HUB_DISABLE_PROGRESS_BARS": "1"}
    result = run_child(command, staging, environment, watch)
    if result.exit_code != 0:
        raise ModelLoadError(
            f"fetching {repository.id} from {repository.endpoint} failed: {result.last_error()}"
        )
    for file in files:
        _check(folder / file.name, file, repository)
    return folder


def remove_notes(folder: Path) -> None:
    """Remove what the hub's library wrote down about its downloads into the folder."""
    shutil.rmtree(folder / ".cache", ignore_errors=True)


def _check(path: Path, file: HubFile, repository: HubRepository) -> None:
    size = path.stat().st_size if path.exists() else 0
    if size != file.num_bytes:
        raise ModelLoadError(
            f"{repository.id}: {file.name} came with {size} bytes, expected {file.num_bytes}"
        )
    if file.sha256 is not None:
        with path.open("rb") as content:
            digest = hashlib.file_digest(content, "sha256").hexdigest()
        if digest != file.sha256:
            raise ModelLoadError(
                f"{repository.id}: {file.name} has the SHA-256 {digest}, expected {file.sha256}; "
                "nothing was kept, try again"
            )


def _hub_file(sibling: Any) -> HubFile:
    large = sibling.lfs
    return HubFile(sibling.rfilename, int(sibling.size or 0), large and large.sha256)


def _first_line(error: Exception) -> str:
    return (str(error).strip() or type(error).__name__).splitlines()[0]
