"""`radixchat serve`: its flags, where their values come from, and what is refused."""

from __future__ import annotations

from pathlib import Path

import click
import pytest
from click.testing import CliRunner

from radixchat.chat_cli.chat_command import chat
from radixchat.chat_cli.config import flag_name
from radixchat.chat_cli.engine_flags import engine_flags
from radixchat.chat_cli.main import cli
from radixchat.chat_cli.paths import config_file
from radixchat.chat_cli.serve_command import serve, take_settings
from radixchat.server.limits import Limits
from radixchat.server.serve_settings import ServeSettings


def settings_of(*arguments: str) -> ServeSettings:
    """What the arguments resolve to, with the environment and the configuration file."""
    context = serve.make_context("serve", list(arguments), parent=click.Context(cli))
    return take_settings(dict(context.params))


def write_config(text: str) -> None:
    config_file().parent.mkdir(exist_ok=True)
    config_file().write_text(text)


def test_defaults() -> None:
    """Without a word: this machine only, no key, no limit but those of ServeSettings."""
    assert settings_of() == ServeSettings()


def test_all_flags() -> None:
    """Every flag reaches its setting."""
    command_line = """
        --host 0.0.0.0 --port 1 --insecure --allow-host a.example --allow-host b.example
        --allow-origin https://c.example --auth-mode message --tls-cert c.pem --tls-key k.pem
        --drain-timeout 5 --disconnect-grace -1 --strict --log-format json --max-message-bytes 9
        --max-connections 1 --max-sockets 2 --max-open 7 --max-lanes 3 --max-queued 4
        --requests-per-minute 5 --tokens-per-day 6
    """
    assert settings_of(*command_line.split()) == ServeSettings(
        host="0.0.0.0",
        port=1,
        insecure=True,
        allow_hosts=("a.example", "b.example"),
        allow_origins=("https://c.example",),
        tls_cert=Path("c.pem"),
        tls_key=Path("k.pem"),
        auth_mode="message",
        drain_timeout_s=5,
        disconnect_grace_s=-1,
        strict=True,
        log_format="json",
        limits=Limits(
            max_message_bytes=9,
            max_connections=1,
            max_sockets=2,
            max_open=7,
            max_lanes=3,
            max_queued=4,
            requests_per_minute=5,
            tokens_per_day=6,
        ),
    )


def test_the_engine_s_flags_are_chat_s() -> None:
    """What the engine can be told is declared once: the same options, not copies."""

    @click.command()
    @engine_flags
    def bare() -> None:
        """Has the engine's flags only."""

    engine = {flag_name(p) for p in bare.params if isinstance(p, click.Option)}
    assert {"model", "page_size", "exact", "device"} < engine
    for command in (chat, serve):
        flags = {flag_name(p) for p in command.params if isinstance(p, click.Option)}
        assert engine | {"db"} < flags


def test_every_flag_has_its_variable() -> None:
    """The variable of a flag is RADIXCHAT_ and its long name; --check is for one time only."""
    options = [p for p in serve.params if isinstance(p, click.Option)]
    assert len(options) == 36
    for option in options:
        if option.name != "check":
            assert option.envvar == f"RADIXCHAT_{flag_name(option).upper()}"


def test_precedence(monkeypatch: pytest.MonkeyPatch) -> None:
    """A flag wins over a variable, a variable over the file, the file over the default."""
    write_config('port = 1\nhost = "a"\nmax-lanes = 3\nallow_host = ["x", "y"]')
    monkeypatch.setenv("RADIXCHAT_PORT", "2")
    monkeypatch.setenv("RADIXCHAT_HOST", "b")
    settings = settings_of("--port", "3")
    assert (settings.port, settings.host, settings.limits.max_lanes) == (3, "b", 3)
    assert settings.allow_hosts == ("x", "y")


def test_one_file_configures_both_commands() -> None:
    """A key of another command's is passed over; one of nobody's is an error."""
    write_config("port = 1\ntemperature = 0.5")
    assert settings_of().port == 1
    context = chat.make_context("chat", [], parent=click.Context(cli))
    assert context.params["temperature"] == 0.5
    write_config("prot = 1")
    for command in ("serve", "chat"):
        result = CliRunner().invoke(cli, [command])
        assert result.exit_code == 2
        assert "prot: unknown key" in result.stderr


@pytest.mark.parametrize(
    ("arguments", "complaint"),
    [
        (["--port", "65536"], "0<=x<=65535"),
        (["--tls-cert", "c.pem"], "tls_cert is given without tls_key"),
        (["--disconnect-grace", "-0.5"], "disconnect_grace_s is -0.5"),
        (["--drain-timeout", "nan"], "not a number"),
        (["--max-lanes", "0"], "x>=1"),
        (["--auth-mode", "query"], "'header', 'message'"),
        (["--temperature", "0"], "--temperature"),
        (["words"], "words"),
    ],
)
def test_usage_errors(arguments: list[str], complaint: str) -> None:
    """What contradicts itself or is out of range exits with 2 and says why, with no model."""
    result = CliRunner().invoke(cli, ["serve", *arguments])
    assert result.exit_code == 2
    assert complaint in result.stderr
    assert not result.stdout
