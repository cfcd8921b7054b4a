"""The model of this process, loaded while the prompt is already there; another one later.

Owns the loading, the engine that comes of it, and who waits for that. Knows no command
and no prompt.

    loading ──► open ──► loading another ──► open
       └──────► none ◄──────┘  where the one before cannot be had again either
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, AsyncExitStack
from dataclasses import replace
from typing import TYPE_CHECKING, Any, Protocol

from radixchat.chat_cli import model_loading
from radixchat.chat_cli.collection import collect_all, no_collection
from radixchat.chat_cli.loading_thread import LoadingThread
from radixchat.chat_cli.settings import ChatSettings
from radixchat.server.local_principal import LOCAL_PRINCIPAL
from radixchat.server.model_name import public_name
from radixchat.server.protocol import ModelLoadError, RadixChatError, ServerDraining

if TYPE_CHECKING:
    from radixchat.server.service import ChatService
    from radixchat.server.store_thread import StoreThread

_READ_ONLY = (
    "conversations can be read, and nothing is answered: `/model NAME` loads another model, "
    "`radixchat models list` shows which are here"
)
_BUSY = "the conversation is being answered elsewhere; waiting …"


class News(Protocol):
    """Who is told of what happens meanwhile."""

    def note(self, text: str) -> None:
        """Something worth knowing."""

    def error(self, text: str) -> None:
        """Something did not work."""

    def during(self, text: str) -> AbstractContextManager[None]:
        """Show a line while somebody waits."""


class BackgroundModel:
    """The model that the settings name, over a store that outlives it.

    waits: `start` and `change` return when it answers, and raise what prevents that; otherwise they
    do not wait, and the news are told. on_change: is called whenever another one answers, or none.
    """

    def __init__(
        self,
        settings: ChatSettings,
        database: StoreThread,
        thread: LoadingThread,
        news: News,
        *,
        waits: bool,
    ) -> None:
        self.on_change: Callable[[], None] | None = None
        # The conversation that somebody is about to go on with: a model gets it ready.
        self.opens: str | None = None
        self._settings = settings
        self._database = database
        self._thread = thread
        self._news = news
        self._waits = waits
        self._opening: asyncio.Task[ChatService] | None = None
        self._failure: RadixChatError | None = None
        self._refusal: RadixChatError | None = None
        self._waiting: set[asyncio.Future[None]] = set()
        self._is_used = False
        self._running = AsyncExitStack()

    @property
    def name(self) -> str:
        """What it is called, and whether it is there yet."""
        name = public_name(self._settings.model)
        if self._failure is not None:
            return f"{name} (not loaded)"
        return name if self.loading is None else f"{name} (loading)"

    @property
    def opened(self) -> ChatService | None:
        """The service, if it answers now."""
        if self._opening is None or self.loading is not None or self._failure is not None:
            return None
        return self._opening.result()

    @property
    def loading(self) -> str | None:
        """What is being done before it can answer; None: nothing is."""
        if self._opening is None or self._opening.done():
            return None
        return f"loading {public_name(self._settings.model)} …"

    async def start(self) -> None:
        """Begin to load it."""
        await self._begin(self._settings.model, None)

    def fail(self, error: RadixChatError) -> None:
        """Do not: that is why there is none."""
        self._failure = error
        self._tell_failure(error)

    async def service(self, *, quietly: bool = False) -> ChatService:
        """The service, waited for; quietly: without a line that says so.

        Raises ModelLoadError: there is none; ServerDraining: `stop_waiting` was called meanwhile.
        """
        await self._settle(quietly=quietly)
        if self._failure is not None:
            raise ModelLoadError(f"no model is loaded: {self._failure}") from self._failure
        assert self._opening is not None, "it is started before it is used"
        return self._opening.result()

    async def pause(self, seconds: float) -> None:
        """Wait before what is busy is asked again. Raises ServerDraining after `stop_waiting`."""
        with self._stoppable() as stopped, self._news.during(_BUSY):
            await asyncio.wait((stopped,), timeout=seconds)
            if stopped.done():
                raise ServerDraining(0, "stopped; nothing was sent")

    def stop_waiting(self) -> None:
        """Whoever waits gets a ServerDraining; the loading goes on."""
        for waiting in self._waiting:
            if not waiting.done():
                waiting.set_result(None)

    async def change(self, name: str) -> None:
        """Have another model answer.

        Raises ModelLoadError, ConfigError: its files say that it could not, nothing has changed;
        ServerDraining as `service` does. If it cannot be loaded after all, the one before answers
        again.
        """
        await self._settle()
        before = None if self._failure is not None else self._settings.model
        await self._thread.call(model_loading.inspect, replace(self._settings, model=name))
        self._failure = None
        await self._begin(name, before)

    async def close(self) -> None:
        """Stop answering. What the thread works on is left to it; a bug that ended it is raised."""
        opening = self._opening
        if opening is not None:
            opening.cancel()
            await asyncio.wait({opening})
        await self._running.aclose()
        if opening is not None and self._failure is None and not opening.cancelled():
            opening.result()

    async def _begin(self, name: str, before: str | None) -> None:
        self._opening = opening = asyncio.create_task(self._open(name, before))
        opening.add_done_callback(self._opened)
        if self._waits:
            await self._settle()
            if (error := self._failure or self._refusal) is not None:
                raise error
            opening.result()

    def _opened(self, opening: asyncio.Task[ChatService]) -> None:
        if opening.cancelled():
            return
        opening.exception()  # whoever asks for the service gets it; it may be that nobody does
        if self.on_change is not None:
            self.on_change()

    async def _settle(self, *, quietly: bool = False) -> None:
        """Wait until nothing is being loaded. Raises ServerDraining."""
        loading = self.loading
        if loading is None:
            return
        assert self._opening is not None, "it is being loaded"
        shown = contextlib.nullcontext() if quietly else self._news.during(loading)
        with self._stoppable() as stopped, shown:
            both: set[asyncio.Future[Any]] = {self._opening, stopped}
            await asyncio.wait(both, return_when=asyncio.FIRST_COMPLETED)
        if not self._opening.done():
            raise ServerDraining(0, "stopped; nothing was sent, the model is not loaded yet")

    @contextlib.contextmanager
    def _stoppable(self) -> Iterator[asyncio.Future[None]]:
        """What `stop_waiting` makes done while the block runs."""
        stopped = asyncio.get_running_loop().create_future()
        self._waiting.add(stopped)
        try:
            yield stopped
        finally:
            self._waiting.discard(stopped)

    async def _open(self, name: str, before: str | None) -> ChatService:
        self._refusal = None
        try:
            try:
                return await self._load(name)
            except RadixChatError as error:
                if before is None:
                    raise
                self._refusal = _without_frames(error)
                self._tell(f"{error}; {public_name(before)} answers again")
                return await self._load(before)
        except RadixChatError as error:
            self._failure = _without_frames(error)
            self._tell_failure(error)
            raise

    async def _load(self, name: str) -> ChatService:
        if self._is_used:
            await self._running.aclose()
            collect_all()
        self._is_used = True
        self._settings = replace(self._settings, model=name)
        with no_collection():
            loop = asyncio.get_running_loop()

            def report(line: str) -> None:
                loop.call_soon_threadsafe(self._news.note, line)

            secret = b""  # which only what is kept on the disk is named by
            if self._settings.disk_cache_bytes:
                secret = await self._database.call(self._database.store.secret)
            loaded = await self._thread.call(model_loading.load, self._settings, secret, report)
        host = model_loading.host_of(*loaded, self._database)
        service = (await self._running.enter_async_context(host)).service(LOCAL_PRINCIPAL)
        if self.opens is not None:
            with contextlib.suppress(RadixChatError):  # deleted meanwhile, or not to be read
                await service.open_conversation(self.opens)
        if not self._waits:
            for notice in service.notices:
                self._news.note(notice)
        return service

    def _tell_failure(self, error: RadixChatError) -> None:
        self._tell(str(error))
        if not self._waits:
            self._news.note(_READ_ONLY)

    def _tell(self, error: str) -> None:
        if not self._waits:
            self._news.error(error)


def _without_frames(error: RadixChatError) -> RadixChatError:
    """The same; but what was being loaded is not kept for as long as the error is."""
    link: BaseException | None = error
    while link is not None:
        link.__traceback__ = None
        link = link.__cause__ or link.__context__
    return error
