"""A service's settings reach the engine, and what changes K and V has a root of its own."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from radixchat.engine.errors import ConfigError, ModelLoadError
from radixchat.server.local import LocalSettings, inspect_model, load_model
from radixchat.server.model_name import public_name
from radixchat.tests.tiny_model import tiny_model_directory

SECRET = b"s" * 16


def test_each_arithmetic_has_its_own_plan_and_its_own_namespaces(tiny_directory: Path) -> None:
    """Weights, KV and exactness: K and V of one are never another's prefix."""
    settings = LocalSettings(str(tiny_directory), threads=1, device="cpu")
    engines = [
        load_model(each).engine
        for each in (
            settings,
            replace(settings, weights="int8"),
            replace(settings, kv="int8"),
            replace(settings, exact=False),
        )
    ]
    assert [(e.plan.weights, e.plan.kv, e.plan.exact) for e in engines] == [
        ("fp32", "fp32", True),
        ("int8", "fp32", True),
        ("fp32", "int8", True),
        ("fp32", "fp32", False),
    ]
    assert len({engine.namespace(SECRET, "local") for engine in engines}) == len(engines)
    assert engines[0].namespace(SECRET, "local") == engines[0].namespace(SECRET, "local")


def test_a_setting_that_cannot_be_is_refused_before_the_model_is_read(tmp_path: Path) -> None:
    """Nothing is there to be loaded, and still it is the setting that is named."""
    with pytest.raises(ConfigError, match="kv is 'int4'"):
        load_model(LocalSettings(str(tmp_path / "nothing"), kv="int4"))


def test_clients_are_not_told_where_a_model_lies(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A path's last part is the name; our own names and those of the hub are as they are."""
    (tmp_path / "secret" / "tiny").mkdir(parents=True)
    (tmp_path / "secret" / "a.gguf").touch()
    monkeypatch.chdir(tmp_path / "secret" / "tiny")
    assert public_name(str(tmp_path / "secret" / "tiny")) == "tiny"
    assert public_name(str(tmp_path / "secret" / "tiny") + "/") == "tiny"
    assert public_name("../a.gguf") == "a.gguf"
    assert public_name(".") == "tiny"
    assert public_name("smollm2-135m") == "smollm2-135m"
    assert public_name("org/name:file.gguf") == "org/name:file.gguf"


def test_a_model_is_looked_at_without_being_loaded(tmp_path: Path) -> None:
    """Whole: nothing is said. Damaged, or a setting that cannot be: the same as loading says."""
    model = tiny_model_directory(tmp_path / "tiny")
    inspect_model(LocalSettings(str(model)))
    with pytest.raises(ConfigError, match="pool_tokens"):
        inspect_model(LocalSettings(str(model), pool_tokens=1))
    (model / "tokenizer.json").write_text("{")
    with pytest.raises(ModelLoadError, match="tokenizer"):
        inspect_model(LocalSettings(str(model)))
