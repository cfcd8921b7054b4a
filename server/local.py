"""Opens a ChatService in this process: model, engine thread, store. Knows no command line."""

from __future__ import annotations

import asyncio
import functools
import hashlib
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import asynccontextmanager, contextmanager
from dataclasses import dataclass
from pathlib import Path

from radixchat.engine.config import EngineConfig
from radixchat.engine.engine import Engine
from radixchat.engine.errors import ModelLoadError
from radixchat.engine.inspection import inspect_description
from radixchat.engine.model_config import ModelConfig
from radixchat.engine.model_store import ModelStore
from radixchat.engine.template import ChatTemplate
from radixchat.engine.thread import EngineThread
from radixchat.engine.tiers.open_tiers import MakeStore
from radixchat.engine.tokenizer import Tokenizer
from radixchat.engine.warm_up import warm_up
from radixchat.engine.weights import Checkpoint, inspect_checkpoint, load_checkpoint
from radixchat.server.disk_cache import DiskCache, read_key
from radixchat.server.host import ChatHost
from radixchat.server.local_principal import LOCAL_PRINCIPAL
from radixchat.server.model_name import public_name
from radixchat.server.option_reader import OptionReader
from radixchat.server.prompt import PromptBuilder
from radixchat.server.service import ChatService
from radixchat.server.store_thread import StoreThread, open_store

_NO_MEMORY = ("allocate memory", "out of memory")


@dataclass(frozen=True, slots=True)
class LocalSettings:
    """What a user may say about a service in this process; None means the default.

    model: an installed model's name, a .gguf file or a folder. disk_cache_bytes: of the folder,
    which all models share; 0 is none. disk_cache_key: a file with the key that encrypts it.
    database: None keeps the conversations in memory only, and nothing on the disk.
    """

    model: str
    page_size: int | None = None
    pool_tokens: int | None = None
    prefix_cache: bool = True
    eviction: str = "chat"
    host_cache_bytes: int = 0
    disk_cache_bytes: int = 0
    disk_cache_folder: Path | None = None
    disk_cache_key: Path | None = None
    write_policy: str = "write_through_selective"
    tier_gate: str = "measured"
    threads: int | None = None
    device: str = "auto"
    weights: str = "auto"
    kv: str = "auto"
    exact: bool | None = None
    database: Path | None = None

    def engine_config(self) -> EngineConfig:
        """The part that concerns the engine."""
        return EngineConfig(
            page_size=self.page_size,
            pool_tokens=self.pool_tokens,
            prefix_cache=self.prefix_cache,
            eviction=self.eviction,
            host_cache_bytes=self.host_cache_bytes if self.prefix_cache else 0,
            write_policy=self.write_policy,
            tier_gate=self.tier_gate,
            threads=self.threads,
            device=self.device,
            weights=self.weights,
            kv=self.kv,
            exact=self.exact,
        )

    def disk_cache(self, secret: bytes) -> DiskCache | None:
        """Where pages go from memory, if anywhere; secret: the database's. Raises ConfigError."""
        folder = self.disk_cache_folder
        if not (self.prefix_cache and self.disk_cache_bytes and folder and self.database):
            return None  # without a database nobody could come back to what is in it
        key = None if self.disk_cache_key is None else read_key(self.disk_cache_key)
        return DiskCache(folder, self.disk_cache_bytes, secret, key)


@dataclass(frozen=True, slots=True)
class LoadedModel:
    """A model ready to serve: the engine over its weights, and what turns text into tokens.

    tiers: what is below the engine's pool, in words; "": nothing.
    """

    engine: Engine
    tokenizer: Tokenizer
    prompts: PromptBuilder
    options: OptionReader
    notices: tuple[str, ...]
    tiers: str = ""


@asynccontextmanager
async def open_host(settings: LocalSettings) -> AsyncIterator[ChatHost]:
    """Everything running; leaving the block stores what runs, then stops it.

    Raises ModelLoadError, ConfigError or StoreError.
    """
    # The store comes first: it is quick, and an unusable file should not cost a model's loading.
    async with open_store(settings.database) as database:
        disk = settings.disk_cache(await database.call(database.store.secret))
        model = await asyncio.to_thread(load_model, settings, disk)
        async with run_host(settings, model, database) as host:
            yield host


@asynccontextmanager
async def run_host(
    settings: LocalSettings, model: LoadedModel, database: StoreThread, *, closes_store: bool = True
) -> AsyncIterator[ChatHost]:
    """A loaded model's host, over that store; leaving the block stores what runs, then stops it."""
    secret = await database.call(database.store.secret)
    engine = EngineThread(model.engine)
    engine.start()
    host = ChatHost(
        engine=engine,
        plan=model.engine.plan,
        database=database,
        tokenizer=model.tokenizer,
        prompts=model.prompts,
        options=model.options,
        model_name=public_name(settings.model),
        notices=model.notices,
        namespace_of=functools.partial(model.engine.namespace, secret),
        closes_store=closes_store,
        tiers=model.tiers,
        disk_folder=settings.disk_cache_folder,
        secret=secret,
    )
    try:
        await host.forget_left_over()
        yield host
    finally:
        await host.close()


@asynccontextmanager
async def open_service(settings: LocalSettings) -> AsyncIterator[ChatService]:
    """The service of whoever runs this process; otherwise as open_host."""
    async with open_host(settings) as host:
        yield host.service(LOCAL_PRINCIPAL)


def prepare(settings: LocalSettings, report: Callable[[str], None]) -> None:
    """What only a machine's first run has to do, told line by line. Raises ConfigError."""
    warm_up(settings.engine_config(), report)


def inspect_model(settings: LocalSettings) -> None:
    """Whether what the settings name could be loaded, as far as no weight has to be read for that.

    Raises ModelLoadError or ConfigError.
    """
    path = _installed(settings)
    settings.engine_config().resolve(inspect_checkpoint(path))
    inspect_description(path)


def load_model(settings: LocalSettings, disk: DiskCache | None = None) -> LoadedModel:
    """Load what the settings name, from disk only; disk: with a tier there, which is opened.

    Raises ModelLoadError or ConfigError.
    """
    config = settings.engine_config()
    arithmetic = config.arithmetic()
    path = _installed(settings)
    if path.is_dir():  # a setting that cannot be is told before gigabytes are read
        config.resolve(inspect_checkpoint(path))
    with _memory_for(settings.model):
        checkpoint = load_checkpoint(path, arithmetic.dtype, arithmetic.weights)
    tokenizer = (
        Tokenizer.from_directory(path)
        if checkpoint.fields is None
        else Tokenizer.from_gguf(checkpoint.fields)
    )
    if tokenizer.vocab_size > checkpoint.config.vocab_size:
        raise ModelLoadError(
            f"{path}: the tokenizer has {tokenizer.vocab_size} tokens, the model only "
            f"{checkpoint.config.vocab_size}; they do not belong together"
        )
    template = ChatTemplate.of(tokenizer)
    prompts = render_hash(path, checkpoint, template)
    make_store: MakeStore | None = None
    if disk is not None:
        make_store = disk.store_of(checkpoint.fingerprint, checkpoint.config, prompts)
    with _memory_for(settings.model):
        engine = Engine(checkpoint, config, make_store=make_store)
    return LoadedModel(
        engine=engine,
        tokenizer=tokenizer,
        prompts=PromptBuilder(tokenizer, template, prompts),
        options=OptionReader(tokenizer, checkpoint.config.vocab_size),
        notices=(*model_notices(checkpoint.config), *template_notices(template)),
        tiers=tiers_in_words(engine, disk),
    )


def tiers_in_words(engine: Engine, disk: DiskCache | None) -> str:
    """`512 MiB of host memory, 2,048 MiB in /home/me/.cache/radixchat/kv`; "" without tiers."""
    if engine.tiers is None:
        return ""
    host = engine.tiers.host
    words = f"{_mebibytes(host.num_slots * host.page_bytes)} of host memory"
    return words if disk is None else f"{words}, {_mebibytes(disk.quota_bytes)} in {disk.folder}"


def _installed(settings: LocalSettings) -> Path:
    path = ModelStore.default().find(settings.model)
    if path is None:
        raise ModelLoadError(
            f"model {settings.model!r} is not on this machine; "
            f"fetch it with: radixchat models pull {settings.model}"
        )
    return path


@contextmanager
def _memory_for(model: str) -> Iterator[None]:
    """Tell of memory that is short, of this machine or of its GPU, as ModelLoadError."""
    try:
        yield
    except (MemoryError, RuntimeError) as error:
        said = str(error).lower()
        # torch says it of a CPU in a plain RuntimeError.
        if not isinstance(error, MemoryError) and not any(words in said for words in _NO_MEMORY):
            raise
        raise ModelLoadError(
            f"there is not enough memory for {model} and its cache; --pool-tokens with a smaller "
            f"number wants less ({error})"
        ) from error


def render_hash(path: Path, checkpoint: Checkpoint, template: ChatTemplate) -> str:
    """Names the model, tokenizer and template that make a conversation's ids.

    A GGUF's fingerprint covers its tokenizer; a folder's is in a file of its own.
    """
    tokenizer = b"" if checkpoint.fields is not None else (path / "tokenizer.json").read_bytes()
    parts = (checkpoint.fingerprint.encode(), template.source.encode(), tokenizer)
    digest = hashlib.blake2b(digest_size=16)
    for part in parts:
        digest.update(len(part).to_bytes(8, "little") + part)
    return digest.hexdigest()


def model_notices(config: ModelConfig) -> tuple[str, ...]:
    """What a user should know of how the model is computed."""
    if not config.by_transformers:
        return ()
    return (
        f"{config.architecture} is computed by transformers, which does not give the same bits in "
        "every batch: an answer may depend on what was cached",
    )


def template_notices(template: ChatTemplate) -> tuple[str, ...]:
    """What the template does to the cache, for a user to know."""
    if template.lint.appendable:
        return ()
    return (
        f"this model's chat template rewrites history ({template.lint.reason}): "
        "each turn recomputes what follows the change",
    )


def _mebibytes(size: int) -> str:
    return f"{size / 2**20:,.0f} MiB"
