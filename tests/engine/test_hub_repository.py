"""Models from a hub, against a stand-in that speaks its protocol on 127.0.0.1."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import pytest
import torch

from radixchat.engine.errors import ModelLoadError
from radixchat.engine.model_store import InstalledModel, ModelStore
from radixchat.engine.weights import load_checkpoint
from radixchat.tests.engine.tiny_checkpoints import random_model, write_gguf
from radixchat.tests.engine.tiny_hub import REPOSITORY, TinyHub, serve
from radixchat.tests.engine.vocabularies import byte_level_fields
from radixchat.tests.tiny_model import CHAT_TEMPLATE, tiny_model_directory
from radixchat.tests.tiny_neox import tiny_neox_directory

GGUF = f"{REPOSITORY}:small/tiny-Q8_0.gguf"


def write_chat_gguf(path: Path, **fields: str) -> None:
    """A GGUF with a tokenizer and a template; `fields` are other values of tokenizer fields."""
    changed = {f"tokenizer.{name.replace('__', '.')}": value for name, value in fields.items()}
    text = {**byte_level_fields(), "tokenizer.chat_template": CHAT_TEMPLATE, **changed}
    vocabulary = len(text["tokenizer.ggml.tokens"])
    write_gguf(
        path, "llama", random_model("llama", vocab_size=vocabulary), kind="Q8_0", fields=text
    )


@pytest.fixture
def hub(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[TinyHub]:
    """A hub with one repository: a checkpoint, a GGUF, and files nobody needs."""
    folder = tiny_model_directory(tmp_path / "repository")
    nobody_needs = ("pytorch_model.bin", "tokenizer.model", "vocab.json", "merges.txt")
    for name in ("README.md", *nobody_needs, "original/consolidated.safetensors"):
        (folder / name).parent.mkdir(exist_ok=True)
        (folder / name).write_bytes(bytes(100))
    (folder / "small").mkdir()
    write_chat_gguf(folder / "small" / "tiny-Q8_0.gguf")
    monkeypatch.setenv("HF_HOME", str(tmp_path / "hf_home"))
    monkeypatch.delenv("HF_TOKEN", raising=False)
    monkeypatch.delenv("HF_HUB_OFFLINE", raising=False)
    with serve(TinyHub(folder)) as hub:
        monkeypatch.setenv("HF_ENDPOINT", hub.url)
        yield hub


@pytest.fixture
def store(tmp_path: Path) -> ModelStore:
    """An empty store."""
    return ModelStore(tmp_path / "models")


def _files(root: Path) -> list[str]:
    paths = [path for path in root.rglob("*") if path.is_file()]
    return sorted(path.relative_to(root).as_posix() for path in paths)


def _ignore(done: int, total: int | None) -> None:
    """A progress that nobody watches."""


def test_a_repository_is_fetched_without_what_nobody_needs(hub: TinyHub, store: ModelStore) -> None:
    """Config, weights and tokenizer under the hub's name; found again without a request."""
    calls: list[tuple[int, int | None]] = []
    path = store.pull(REPOSITORY, lambda done, total: calls.append((done, total)))
    assert path == store.root / "hub" / "org" / "tiny"
    wanted = ["config.json", "model.safetensors", "tokenizer.json", "tokenizer_config.json"]
    assert _files(store.root) == [f"hub/org/tiny/{name}" for name in wanted]
    assert path.stat().st_mode & 0o777 == 0o700
    size = sum((hub.folder / name).stat().st_size for name in wanted)
    assert calls[-1] == (size, size)
    assert [done for done, _ in calls] == sorted(done for done, _ in calls)
    ours, theirs = load_checkpoint(path).dense(), load_checkpoint(hub.folder).dense()
    assert all(torch.equal(ours[name], theirs[name]) for name in theirs)
    hub.requests.clear()
    assert store.pull(REPOSITORY, _ignore) == store.find(REPOSITORY) == path
    assert hub.requests == []
    assert store.list() == [InstalledModel(REPOSITORY, path, size)]


def test_one_gguf_file_of_a_repository_is_fetched(hub: TinyHub, store: ModelStore) -> None:
    """By its path in the repository, with the token that the hub wants."""
    hub.token = "secret"
    with pytest.raises(ModelLoadError, match=r"does not show it without a token.*set HF_TOKEN"):
        store.pull(GGUF, _ignore)
    with pytest.MonkeyPatch.context() as environment:
        environment.setenv("HF_TOKEN", "secret")
        path = store.pull(GGUF, _ignore)
    assert path == store.root / "gguf" / "org" / "tiny" / "small" / "tiny-Q8_0.gguf"
    assert _files(store.root) == ["gguf/org/tiny/small/tiny-Q8_0.gguf"]
    assert path.read_bytes() == (hub.folder / "small" / "tiny-Q8_0.gguf").read_bytes()
    assert [model.name for model in store.list()] == [GGUF]


def test_shards_are_fetched_together(hub: TinyHub, store: ModelStore) -> None:
    """With an index, every shard, and not a single file beside them."""
    (hub.folder / "model.safetensors").unlink()
    random_model("qwen2").save_pretrained(hub.folder, max_shard_size="50KB")
    shards = len(list(hub.folder.glob("model-*.safetensors")))
    path = store.pull(REPOSITORY, _ignore)
    assert len(list(path.glob("model-*.safetensors"))) == shards > 3
    assert load_checkpoint(path).config.architecture == "qwen2"


def test_a_file_with_another_checksum_is_not_kept(hub: TinyHub, store: ModelStore) -> None:
    """The hub's own SHA-256 is held against what arrived."""
    hub.corrupt = "model.safetensors"
    with pytest.raises(ModelLoadError, match=r"model\.safetensors has the SHA-256 .* expected"):
        store.pull(REPOSITORY, _ignore)
    assert _files(store.root) == []


@pytest.mark.slow
def test_a_transfer_that_breaks_off_is_not_kept(hub: TinyHub, store: ModelStore) -> None:
    """After the library's own retries: its words, and nothing half-written."""
    hub.cut_off = "model.safetensors"
    with pytest.raises(
        ModelLoadError, match=f"fetching {REPOSITORY} from {hub.url} failed: .*peer"
    ):
        store.pull(REPOSITORY, _ignore)
    assert _files(store.root) == []


def test_an_unsupported_architecture_is_refused_before_its_weights_come(
    hub: TinyHub, store: ModelStore
) -> None:
    """The hub tells the architecture; gigabytes are not fetched to find out."""
    hub.architectures = ["T5ForConditionalGeneration"]
    with pytest.raises(ModelLoadError, match=r"'T5ForConditionalG.* not supported; supported: Ll"):
        store.pull(REPOSITORY, _ignore)
    assert all(request.startswith("GET /api/") for request in hub.requests)
    assert _files(store.root) == []


def test_a_model_that_only_transformers_knows_is_fetched(hub: TinyHub, store: ModelStore) -> None:
    """Its name is enough for the hub's list, its config.json for the rest."""
    tiny_neox_directory(hub.folder)
    hub.architectures = ["GPTNeoXForCausalLM"]
    path = store.pull(REPOSITORY, _ignore)
    assert load_checkpoint(path).config.architecture == "GPTNeoXForCausalLM"


@pytest.mark.parametrize(
    ("name", "change", "message"),
    [
        ("config.json", {"hidden_act": "gelu"}, "hidden_act is 'gelu'"),
        (
            "config.json",
            {"architectures": ["Gemma2ForCausalLM"], "attn_logit_softcapping": 50.0},
            "capped attention scores",
        ),
        (
            "config.json",
            {"architectures": ["NobodyKnowsForCausalLM"]},
            "transformers .* has no such model",
        ),
        ("tokenizer.json", {"model": {"type": "Unigram"}}, 'is of type "Unigram"'),
        ("tokenizer_config.json", {"chat_template": None}, "no chat template: it is a base model"),
        ("tokenizer_config.json", {"chat_template": "{% if"}, "template"),
    ],
)
def test_a_model_we_cannot_use_is_refused_before_its_weights_come(
    hub: TinyHub, store: ModelStore, name: str, change: dict[str, object], message: str
) -> None:
    """What the hub did not tell its small files do."""
    document = json.loads((hub.folder / name).read_text(encoding="utf-8"))
    (hub.folder / name).write_text(json.dumps({**document, **change}), encoding="utf-8")
    with pytest.raises(ModelLoadError, match=message):
        store.pull(REPOSITORY, _ignore)
    assert any(request.endswith(name) for request in hub.requests)
    assert not any(request.endswith(".safetensors") for request in hub.requests)
    assert _files(store.root) == []


def test_without_a_tokenizer_we_can_read_nothing_is_fetched(
    hub: TinyHub, store: ModelStore
) -> None:
    """A tokenizer.model alone is refused by the listing, which names what could be used."""
    (hub.folder / "tokenizer.json").unlink()
    with pytest.raises(ModelLoadError, match=rf"no tokenizer\.json.* its GGUF files: {GGUF}"):
        store.pull(REPOSITORY, _ignore)
    assert all(request.startswith("GET /api/") for request in hub.requests)
    assert _files(store.root) == []


def test_weights_we_cannot_load_are_not_kept(hub: TinyHub, store: ModelStore) -> None:
    """The headers tell."""
    config = json.loads((hub.folder / "config.json").read_text(encoding="utf-8"))
    changed = {**config, "num_hidden_layers": 3}
    (hub.folder / "config.json").write_text(json.dumps(changed), encoding="utf-8")
    with pytest.raises(ModelLoadError, match=r"layers\.2\."):
        store.pull(REPOSITORY, _ignore)
    assert _files(store.root) == []


def test_a_gguf_that_cannot_chat_is_not_kept(hub: TinyHub, store: ModelStore) -> None:
    """Its tokenizer is known when it is here."""
    write_chat_gguf(hub.folder / "small" / "tiny-Q8_0.gguf", ggml__model="bert")
    with pytest.raises(ModelLoadError, match="bert"):
        store.pull(GGUF, _ignore)
    assert _files(store.root) == []


def test_what_a_repository_lacks_is_named_with_what_it_has(hub: TinyHub, store: ModelStore) -> None:
    """Another file name, a repository of GGUF files only, one that is not there."""
    with pytest.raises(ModelLoadError, match=rf"no file x\.gguf; its GGUF files: {GGUF}"):
        store.pull(f"{REPOSITORY}:x.gguf", _ignore)
    (hub.folder / "config.json").unlink()
    with pytest.raises(ModelLoadError, match=rf"no config\.json .*its GGUF files: {GGUF}"):
        store.pull(REPOSITORY, _ignore)
    with pytest.raises(ModelLoadError, match=rf"{hub.url} has no model org/other"):
        store.pull("org/other", _ignore)
    assert _files(store.root) == []


def test_without_a_hub_the_message_says_what_to_do(
    hub: TinyHub, store: ModelStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Nobody listens there, or it is no hub at all."""
    monkeypatch.setenv("HF_ENDPOINT", "http://127.0.0.1:9")
    with pytest.raises(ModelLoadError, match=r"127\.0\.0\.1:9 cannot be reached.*HF_ENDPOINT"):
        store.pull(REPOSITORY, _ignore)
    monkeypatch.setenv("HF_ENDPOINT", f"{hub.url}/nowhere")
    with pytest.raises(ModelLoadError, match="nowhere has no model"):
        store.pull(REPOSITORY, _ignore)
    assert _files(store.root) == []


def test_the_users_own_hub_cache_is_copied_from(
    hub: TinyHub, store: ModelStore, tmp_path: Path
) -> None:
    """HF_HOME holds: a file that transformers fetched already is not fetched again."""
    from huggingface_hub import snapshot_download

    snapshot_download(REPOSITORY, endpoint=hub.url, cache_dir=tmp_path / "hf_home" / "hub")
    hub.requests.clear()
    store.pull(REPOSITORY, _ignore)
    assert not [request for request in hub.requests if request.startswith("GET /org/tiny/resolve")]
