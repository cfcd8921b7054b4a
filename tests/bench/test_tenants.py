"""`bench tenants` on a tiny model: what it counts, and what it makes of that."""

from __future__ import annotations

import asyncio
import json
from dataclasses import replace
from pathlib import Path

from click.testing import CliRunner

from radixchat.bench.tenants import broken, main
from radixchat.bench.tenants_run import TenantsArm, tenants_arm
from radixchat.server.local import LocalSettings, open_host


def measured(model: Path) -> list[TenantsArm]:
    async def run() -> list[TenantsArm]:
        async with open_host(LocalSettings(str(model), threads=1)) as host:
            return [
                await tenants_arm(host, "apart", "ann", "bob", 8, 12, seed=1),
                await tenants_arm(host, "control", "eve", "eve", 8, 12, seed=2),
            ]

    return asyncio.run(run())


def test_tokens_of_another_are_seen_in_the_control_only(tiny_path: Path) -> None:
    """Whose tokens were cached is counted exactly, whatever the times are."""
    apart, control = measured(tiny_path)
    assert apart.known.n == apart.fresh.n == 8
    assert apart.foreign_tokens == 0
    assert control.foreign_tokens > 8 * 12


def test_what_does_not_hold_is_said(tiny_path: Path) -> None:
    """Foreign tokens, times that tell, and a control that is not caught."""
    apart, control = measured(tiny_path)
    fine = [replace(apart, p=0.5), replace(control, p=1e-9)]
    assert broken(fine) == []
    assert "cached" in broken([replace(fine[0], foreign_tokens=3), fine[1]])[0]
    assert "times differ" in broken([replace(fine[0], p=0.01), fine[1]])[0]
    assert "control" in broken([fine[0], replace(fine[1], p=0.5)])[0]


def test_the_command(tiny_path: Path) -> None:
    """A table, and one line of JSON last; it fails where so few times cannot tell the control."""
    arguments = ["--model", str(tiny_path), "--probes", "8", "--words", "6", "--json"]
    done = CliRunner().invoke(main, arguments)
    assert done.exit_code in (0, 1)
    document = json.loads(done.stdout.splitlines()[-1])
    assert [arm["name"] for arm in document["arms"]] == ["two tenants", "one key (control)"]
