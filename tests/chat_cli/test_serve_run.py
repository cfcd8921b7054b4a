"""What `radixchat serve` says before it serves: what is wrong, and `--check`."""

from __future__ import annotations

import os
import socket
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from radixchat.chat_cli.main import cli
from radixchat.chat_cli.paths import database_file
from radixchat.tests.server.test_tls import make_certificate

PARTS = ["address", "tls", "database", "keys", "model"]


def serve(*arguments: str) -> Result:
    """The command in this process."""
    return CliRunner().invoke(cli, ["serve", "--port", "0", *arguments])


def marks(result: Result) -> dict[str, str]:
    """What the check says of each part."""
    lines = [line.split() for line in result.stdout.splitlines()]
    assert [line[1] for line in lines] == PARTS
    return {line[1]: line[0] for line in lines}


@pytest.mark.parametrize("check", [False, True])
def test_what_is_wrong_is_told_before_the_model_is_loaded(
    check: bool, tiny_model: Path, tmp_path: Path
) -> None:
    """A port that is taken, an address without a key, files that make no TLS: 2, and a sentence."""
    certificate, _ = make_certificate(tmp_path / "a")
    _, other = make_certificate(tmp_path / "b")
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = str(taken.getsockname()[1])
        for flags, part, said in (
            (["--port", port], "address", "Address already in use"),
            (["--host", "0.0.0.0"], "keys", "radixchat keys add"),
            (
                ["--tls-cert", str(certificate), "--tls-key", str(other)],
                "tls",
                "do not make TLS together",
            ),
        ):
            result = serve("-m", str(tiny_model), *flags, *(["--check"] if check else []))
            assert result.exit_code == 2
            assert said in (result.stdout if check else result.stderr)
            if check:
                assert marks(result) == dict.fromkeys(PARTS, "ok") | {part: "no"}
    assert not database_file().exists()


def test_a_check_looks_at_everything(tiny_model: Path) -> None:
    """A line for each part, and nothing is made."""
    result = serve("-m", str(tiny_model), "--check")
    assert (result.exit_code, result.stderr) == (0, "")
    assert marks(result) == dict.fromkeys(PARTS, "ok")
    assert "16 tokens" in result.stdout
    assert not database_file().parent.exists()


def test_a_part_that_fails_does_not_hide_the_others(tmp_path: Path) -> None:
    """A model that is not there, beside a key that is; the first failure's code."""
    assert CliRunner().invoke(cli, ["keys", "add", "anna"]).exit_code == 0
    result = serve("-m", "no-such-model", "--check", "--host", "0.0.0.0")
    assert result.exit_code == 69
    assert marks(result) == dict.fromkeys(PARTS, "ok") | {"model": "no"}
    assert "no-such-model" in result.stdout


def test_a_host_that_is_none_is_told_once(tiny_model: Path) -> None:
    """By the part about the address; that about keys says only what it knows."""
    result = serve("-m", str(tiny_model), "--check", "--host", "no such host")
    assert result.exit_code == 2
    assert marks(result) == dict.fromkeys(PARTS, "ok") | {"address": "no"}
    assert result.stdout.count("no such host") == 1
    assert "none needed" not in result.stdout


def test_an_origin_that_is_none(tiny_model: Path) -> None:
    """It is refused before anything else, by a check too."""
    for check in ([], ["--check"]):
        result = serve("-m", str(tiny_model), "--allow-origin", "example.org", *check)
        assert result.exit_code == 2
        assert "https://example.org" in " ".join(result.stderr.split())


def test_a_damaged_database_is_found(tiny_model: Path) -> None:
    """A check verifies what is there."""
    assert CliRunner().invoke(cli, ["keys", "add", "anna"]).exit_code == 0
    damaged = bytearray(database_file().read_bytes())
    damaged[100:200] = os.urandom(100)
    database_file().write_bytes(damaged)
    result = serve("-m", str(tiny_model), "--check")
    assert result.exit_code == 1
    assert marks(result)["database"] == "no"


def test_a_database_that_cannot_be_made(tiny_model: Path, tmp_path: Path) -> None:
    """A path below a file is no place for a database."""
    (tmp_path / "file").touch()
    result = serve("-m", str(tiny_model), "--check", "--db", str(tmp_path / "file" / "x.db"))
    assert result.exit_code == 1
    assert marks(result)["database"] == "no"


def test_an_exposed_key_is_told(tiny_model: Path, tmp_path: Path) -> None:
    """TLS works, and somebody else on the machine could read its key."""
    certificate, key = make_certificate(tmp_path / "a")
    key.chmod(0o644)
    flags = ["--tls-cert", str(certificate), "--tls-key", str(key)]
    result = serve("-m", str(tiny_model), *flags, "--check")
    assert result.exit_code == 0
    assert f"chmod 600 {key}" in result.stdout


def test_a_model_that_cannot_be_loaded(tmp_path: Path) -> None:
    """69 and a sentence, whether it is tried or only looked at."""
    (tmp_path / "model").mkdir()
    result = serve("-m", str(tmp_path / "model"), "--check")
    assert result.exit_code == 69
    assert marks(result)["model"] == "no"
