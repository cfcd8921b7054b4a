"""What the engine would do here: its plan, its kernels, its models, and whether its cache works.

Compiles nothing and fetches nothing. The engine is imported here, where it can be.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

from radixchat.chat_cli.checkup import Problem, Section, shown_bytes, shown_path
from radixchat.chat_cli.model_loading import local_settings
from radixchat.chat_cli.server_address import shown_url
from radixchat.chat_cli.settings import ChatSettings
from radixchat.server.protocol import ModelLoadError, RadixChatError

if TYPE_CHECKING:
    from radixchat.engine.trial import Trial

_REPAIR = "pip install --force-reinstall radixchat"
_DRIVER = Path("/proc/driver/nvidia/version")


def models(settings: ChatSettings) -> Section:
    """Those that are here, and the one that is meant without a flag."""
    from radixchat.engine.model_store import ModelStore

    store = ModelStore.default()
    if settings.url is not None:
        return Section("models", {"a chat's": f"that of {shown_url(settings.url)}"})
    facts = {model.name: shown_bytes(model.bytes) for model in store.list()}
    try:
        is_here = store.find(settings.model) is not None
    except ModelLoadError as error:
        return Section("models", facts, (Problem(str(error), "another one: -m NAME"),))
    wanted = settings.model if is_here else f"{settings.model}, fetched when it is first used"
    return Section("models", {"a chat's": wanted, **facts})


def engine(settings: ChatSettings) -> Section:
    """The plan of a chat without flags, and two turns of a very small model."""
    try:
        from radixchat.engine.gpus import gpus, torch_build
        from radixchat.engine.warm_up import compiled_folder
    except ImportError as error:
        problem = Problem(f"the engine cannot be imported: {error}", _REPAIR)
        return Section("engine", {"torch": "cannot be imported"}, (problem,))
    build, found_gpus = torch_build(), gpus()
    facts = {"torch is for": build, "GPU": "; ".join(found_gpus) or "none"}
    problems = []
    if not found_gpus and _DRIVER.exists():
        what = f"there is an NVIDIA driver, but torch, which is built for {build}, uses no GPU"
        problems.append(Problem(what, "a torch that was built for CUDA, and a driver as new as it"))
    try:
        facts.update(_planned(settings))
    except RadixChatError as error:
        problems.append(Problem(f"no engine can be planned: {error}", "other flags or variables"))
    folder = compiled_folder()
    if folder is None:
        facts["kernels"] = "not compiled yet for this CPU: the first chat does it"
        facts["self-test"] = facts["cache"] = "not tried before kernels are compiled"
        return Section("engine", facts, problems)
    facts["kernels"] = f"compiled, in {shown_path(folder)}"

    from radixchat.engine.trial import try_engine

    trial = try_engine(settings.threads)
    facts["self-test"] = trial.inexact or "arithmetic is exact"
    found, should = trial.cached_tokens, trial.reusable_tokens
    facts["cache"] = f"a second turn found {found} of {should} tokens of the first"
    return Section("engine", facts, (*problems, *_wrong(trial)))


def _planned(settings: ChatSettings) -> Iterator[tuple[str, str]]:
    """What would be computed with; of the model that is meant, if it is here."""
    from radixchat.engine.model_store import ModelStore
    from radixchat.engine.trial import plan_for

    path = ModelStore.default().find(settings.model)
    config = local_settings(settings).engine_config()
    plan = plan_for(path, config)
    yield "plan", f"{plan.arithmetic}, {plan.threads} threads"
    if path is None:
        yield "pool", f"its size is known when {settings.model} is here"
        return
    size = shown_bytes(plan.pool_tokens * plan.kv_bytes_per_token)
    yield "pool", f"{plan.pool_tokens:,} tokens in pages of {plan.page_size}, {size} when full"
    yield "context", f"{plan.max_tokens:,} tokens"


def _wrong(trial: Trial) -> Iterator[Problem]:
    report = "report it, with this page: that should not be"
    if trial.inexact is not None:
        what = f"the arithmetic is not exact on this machine: {trial.inexact}"
        yield Problem(what, "--exact is slower here, with torch's arithmetic; and report it")
    if trial.cached_tokens != trial.reusable_tokens:
        what = f"a second turn found {trial.cached_tokens} of {trial.reusable_tokens} tokens cached"
        yield Problem(what, report)
    if not trial.is_same_answer:
        yield Problem("an answer depends on what is cached", report)
