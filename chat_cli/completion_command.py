"""`radixchat completion`: the script that has a shell complete the commands. The script is click's.

What is completed by name beyond commands and flags is in `shell_completion.py`.
"""

from __future__ import annotations

import click
from click.shell_completion import get_completion_class

_HELP = """Print the script that completes `radixchat` in a shell.

\b
bash  radixchat completion bash > ~/.local/share/bash-completion/completions/radixchat
zsh   radixchat completion zsh > a file _radixchat in a folder of $fpath
fish  radixchat completion fish > ~/.config/fish/completions/radixchat.fish
"""
_NAME = "radixchat"
_VARIABLE = "_RADIXCHAT_COMPLETE"


@click.command("completion", help=_HELP, context_settings={"help_option_names": ["-h", "--help"]})
@click.argument("shell", type=click.Choice(["bash", "zsh", "fish"]))
@click.pass_context
def completion(ctx: click.Context, shell: str) -> None:
    """Print it."""
    kind = get_completion_class(shell)
    assert kind is not None, "click has all that are offered"
    click.echo(kind(ctx.find_root().command, {}, _NAME, _VARIABLE).source())
