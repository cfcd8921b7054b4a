"""`radixchat chat`: its flags, where their values come from, and what is refused."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import click
import pytest
from click.testing import CliRunner

from radixchat.chat_cli import run
from radixchat.chat_cli.chat_command import chat, resolve
from radixchat.chat_cli.config import flag_name
from radixchat.chat_cli.engine_flags import DEVICES, EVICTION_POLICIES, KV_FORMATS, WEIGHTS
from radixchat.chat_cli.main import cli
from radixchat.chat_cli.paths import config_file, disk_cache_folder
from radixchat.chat_cli.settings import ChatSettings
from radixchat.engine.arithmetic import CHOICES
from radixchat.engine.config import (
    DEFAULT_PAGE_SIZE,
    DEFAULT_POOL_CONTEXTS,
    DEFAULT_POOL_MEMORY_SHARE,
)
from radixchat.engine.model_store import DEFAULT_MODEL
from radixchat.radix.policies import POLICY_NAMES
from radixchat.server.protocol import ResponseOptions


def settings_of(*arguments: str) -> ChatSettings:
    """What the arguments resolve to, with the environment and the configuration file."""
    context = chat.make_context("chat", list(arguments))
    values: dict[str, Any] = {k: v for k, v in context.params.items() if k != "words"}
    return resolve(context, values)


def write_config(text: str) -> None:
    config_file().parent.mkdir(exist_ok=True)
    config_file().write_text(text)


def test_defaults(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Without a word the default model's card decides, and the data folder has the database."""
    monkeypatch.delenv("RADIXCHAT_DISK_CACHE")
    monkeypatch.setenv("RADIXCHAT_CACHE_DIR", str(tmp_path / "cache"))
    assert settings_of() == ChatSettings(
        model=DEFAULT_MODEL,
        database=tmp_path / "data" / "sessions.db",
        disk_cache_bytes=2 << 30,
        disk_cache_folder=tmp_path / "cache" / "kv",
    )
    assert settings_of().answer == ResponseOptions(
        temperature=0.2, top_p=0.9, max_output_tokens=1024
    )


def test_help_names_the_default_model() -> None:
    """The model that the help promises is the one that is taken."""
    assert DEFAULT_MODEL in CliRunner().invoke(cli, ["chat", "--help"]).output


def test_help_names_the_engine_s_defaults_and_the_files() -> None:
    """What a flag is when it is not given, where the engine or the platform decides that."""
    text = " ".join(CliRunner().invoke(cli, ["chat", "--help"]).output.split())
    assert f"[default: ({DEFAULT_PAGE_SIZE}); x>=1]" in text
    assert EVICTION_POLICIES == POLICY_NAMES
    assert {"device": DEVICES, "weights": WEIGHTS, "kv": KV_FORMATS} == CHOICES
    assert DEFAULT_POOL_CONTEXTS == 4
    assert DEFAULT_POOL_MEMORY_SHARE == 1 / 4
    assert "[default: (four contexts, at most a quarter of the memory); x>=1]" in text
    assert "[default: (all cores); x>=1]" in text
    assert "[default: (sessions.db in RADIXCHAT_DATA_DIR, or else in the platform's" in text
    assert "config.toml lies in RADIXCHAT_CONFIG_DIR" in text


def test_all_flags() -> None:
    """Every flag reaches its setting."""
    command_line = """
        -m m -s sys --temperature 0 --top-p 1 --top-k 5 --min-p .1 --seed 7 --max-tokens 8
        --page-size 4 --pool-tokens 99 --no-cache --db f.db --json --ids --threads 2
        --eviction lru --stop END --stop User: --timeout 9 --truncation auto --no-speculation
        --device cpu --weights int8 --kv int8 --no-exact
        --attach a.txt -a b.txt --no-log --no-history --quiet --no-color
        --host-cache 1.5M --disk-cache 0 --disk-cache-key k --write-policy write_back
    """
    assert settings_of(*command_line.split()) == ChatSettings(
        model="m",
        system="sys",
        answer=ResponseOptions(
            temperature=0,
            top_p=1,
            top_k=5,
            min_p=0.1,
            seed=7,
            max_output_tokens=8,
            stop=("END", "User:"),
            timeout_s=9,
            truncation="auto",
            speculate=False,
        ),
        page_size=4,
        pool_tokens=99,
        prefix_cache=False,
        eviction="lru",
        host_cache_bytes=3 << 19,
        disk_cache_key=Path("k"),
        write_policy="write_back",
        disk_cache_folder=disk_cache_folder(),
        database=Path("f.db"),
        json=True,
        ids=True,
        threads=2,
        device="cpu",
        weights="int8",
        kv="int8",
        exact=False,
        attach=("a.txt", "b.txt"),
        quiet=True,
        color=False,
        history=False,
        log=False,
    )
    assert settings_of("--raw").raw
    assert settings_of("-x", "-q", "-n", "-d", "f.db", "why") == ChatSettings(
        model=DEFAULT_MODEL,
        database=Path("f.db"),
        disk_cache_folder=disk_cache_folder(),
        extract=True,
        quiet=True,
        log=False,
    )
    assert settings_of("--exact").exact
    assert settings_of("-c").continue_last
    assert settings_of("--session", "conv_1").session == "conv_1"


def test_every_flag_has_its_variable() -> None:
    """The variable of a flag, or of a setting of -o, is RADIXCHAT_ and its long name."""
    options = [p for p in chat.params if isinstance(p, click.Option) and p.expose_value]
    assert len(options) == 55
    for option in options:
        assert option.envvar == f"RADIXCHAT_{flag_name(option).upper()}"


def test_precedence(monkeypatch: pytest.MonkeyPatch) -> None:
    """A flag wins over a variable, a variable over the file, the file over the default."""
    write_config("top_k = 1\nseed = 1\nmax_tokens = 1")
    monkeypatch.setenv("RADIXCHAT_TOP_K", "2")
    monkeypatch.setenv("RADIXCHAT_SEED", "2")
    answer = settings_of("--top-k", "3").answer
    assert (answer.top_k, answer.seed, answer.max_output_tokens) == (3, 2, 1)
    assert answer.top_p == 0.9


@pytest.mark.parametrize(
    ("flag", "key", "field"),
    [
        ("--raw", "raw", "raw"),
        ("--quiet", "quiet", "quiet"),
        ("--no-color", "no_color", "color"),
        ("--no-history", "no_history", "history"),
        ("--no-log", "no_log", "log"),
    ],
)
def test_precedence_of_switches(
    monkeypatch: pytest.MonkeyPatch, flag: str, key: str, field: str
) -> None:
    """A variable takes back what the file says, and a flag what the variable says."""
    default = getattr(settings_of(), field)
    write_config(f"{key} = true")
    assert getattr(settings_of(), field) is not default
    monkeypatch.setenv(f"RADIXCHAT_{key.upper()}", "false")
    assert getattr(settings_of(), field) is default
    assert getattr(settings_of(flag), field) is not default


def test_files_to_attach(monkeypatch: pytest.MonkeyPatch) -> None:
    """A variable has one name, spaces and all, or a JSON list; flags take its place."""
    write_config('attach = ["from file"]')
    assert settings_of().attach == ("from file",)
    monkeypatch.setenv("RADIXCHAT_ATTACH", "my notes.txt")
    assert settings_of().attach == ("my notes.txt",)
    monkeypatch.setenv("RADIXCHAT_ATTACH", '["a b", "c"]')
    assert settings_of().attach == ("a b", "c")
    assert settings_of("-a", "x", "-a", "y").attach == ("x", "y")


def test_of_two_that_exclude_each_other_the_nearer_counts(monkeypatch: pytest.MonkeyPatch) -> None:
    """A flag wins over what the file or a variable says against it."""
    write_config("json = true\nno_log = true")
    assert (settings_of("-x", "why").extract, settings_of("-x", "why").json) == (True, False)
    assert (settings_of("--raw").raw, settings_of("--raw").json) == (True, False)
    assert (settings_of("-c").continue_last, settings_of("-c").log) == (True, True)
    monkeypatch.setenv("RADIXCHAT_SESSION", "conv_1")
    assert (settings_of().session, settings_of().log) == ("conv_1", True)
    assert (settings_of("-n").session, settings_of("-n").log) == (None, False)


def test_extract_of_the_environment_is_for_questions(monkeypatch: pytest.MonkeyPatch) -> None:
    """Where there are no words, a variable's --extract does nothing."""
    monkeypatch.setenv("RADIXCHAT_EXTRACT", "1")
    assert settings_of("why").extract
    assert not settings_of().extract


def test_nearest_conversation_wins(monkeypatch: pytest.MonkeyPatch) -> None:
    """A conversation named by flag wins over one that a variable or the file names."""
    monkeypatch.setenv("RADIXCHAT_SESSION", "conv_env")
    assert settings_of("-c").session is None
    assert settings_of().session == "conv_env"
    write_config("continue = true")
    assert not settings_of().continue_last


@pytest.mark.parametrize(
    ("arguments", "complaint"),
    [
        (["--temperature", "hot"], "'hot' is not a valid float"),
        (["--temperature", "11"], "0<=x<=10"),
        (["--temperature", "nan"], "not a number"),
        (["--top-p", "0"], "0<x<=1"),
        (["--min-p", "1"], "0<=x<1"),
        (["--top-k", "-1"], "x>=0"),
        (["--max-tokens", "0"], "x>=1"),
        (["--seed", "-1"], "0<=x<="),
        (["--threads", "0"], "x>=1"),
        (["--weights", "int4"], "'auto', 'fp32', 'int8'"),
        (["--kv", "fp32"], "'auto', 'int8'"),
        (["--device", "gpu"], "'auto', 'cpu', 'cuda'"),
        (["--bogus"], "--bogus"),
        (["-c", "--session", "x"], "different conversations"),
        (["-c", "-s", "be brief"], "--system"),
        (["--session", "x", "--system", "be brief"], "--system"),
        (["--ids"], "--json"),
        (["-o", "logprobs", "2"], "--json"),
        (["-x"], "--extract is of one answer"),
        (["-x", "--json", "why"], "--extract prints code"),
        (["--raw", "--json"], "--raw leaves"),
        (["-c", "--no-log"], "--no-log"),
        (["--session", "x", "-n"], "--no-log"),
        (["-a", ""], "at least one character"),
        ([""], "empty"),
        (["  "], "empty"),
    ],
)
def test_usage_errors(arguments: list[str], complaint: str) -> None:
    """What contradicts itself or is out of range exits with 2 and says why, with no model."""
    result = CliRunner().invoke(cli, ["chat", *arguments])
    assert result.exit_code == 2
    assert complaint in result.stderr
    assert not result.stdout


@pytest.mark.parametrize("flags", [["--no-color"], []])
def test_no_color_is_what_the_variable_is(
    monkeypatch: pytest.MonkeyPatch, flags: list[str]
) -> None:
    """Whoever draws finds NO_COLOR, as if the user had set it."""
    monkeypatch.setenv("NO_COLOR", "")
    found: list[str] = []

    def note(settings: ChatSettings, question: str | None) -> int:
        assert question == "why"
        found.append(os.environ["NO_COLOR"])
        return 0

    monkeypatch.setattr(run, "run_chat", note)
    assert CliRunner().invoke(cli, ["chat", *flags, "why"]).exit_code == 0
    assert found == ["1" if flags else ""]


def test_config_errors() -> None:
    """A wrong configuration file is a usage error that names the file and the key."""
    write_config("colour = true")
    result = CliRunner().invoke(cli, ["chat", "hello"])
    assert result.exit_code == 2
    assert str(config_file()) in result.stderr
    assert "colour" in result.stderr


def test_variable_out_of_range(monkeypatch: pytest.MonkeyPatch) -> None:
    """A wrong variable is refused like a wrong flag."""
    monkeypatch.setenv("RADIXCHAT_TOP_P", "7")
    assert CliRunner().invoke(cli, ["chat", "hello"]).exit_code == 2


def test_system_of_the_environment_does_not_forbid_continuing(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """A system message for every new conversation may stand in a variable."""
    monkeypatch.setenv("RADIXCHAT_SYSTEM", "be brief")
    assert settings_of("-c").system == os.environ["RADIXCHAT_SYSTEM"]


@pytest.mark.parametrize(
    ("written", "size"),
    [("0", 0), ("12", 12), ("512M", 512 << 20), ("1.5G", 3 << 29), ("2 GiB", 2 << 30)],
)
def test_sizes(written: str, size: int) -> None:
    """As people write them, on the command line and in the file."""
    assert settings_of("--disk-cache", written).disk_cache_bytes == size
    write_config(f'host_cache = "{written}"')
    assert settings_of().host_cache_bytes == size


@pytest.mark.parametrize("written", ["-1", "2X", "", "G", "1e3", "inf"])
def test_no_sizes(written: str) -> None:
    """Each is refused with one that would do."""
    with pytest.raises(click.BadParameter, match="is no size, like 512M"):
        settings_of(f"--disk-cache={written}")
