"""What a shell needs to complete commands, options and the names of jobs when TAB is pressed."""

import argparse

from argcomplete.shell_integration import shellcode

from octostore.cli.command import Arguments, Context

SHELLS = ("bash", "zsh", "fish")
EXAMPLES = [
    'eval "$(octostore completion bash)"    # in ~/.bashrc; for zsh in ~/.zshrc, with zsh',
    "octostore completion fish > ~/.config/fish/completions/octostore.fish",
]


def configure(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("shell", choices=SHELLS, help="which one")


def run(arguments: Arguments, context: Context) -> None:
    script = shellcode(["octostore"], shell=arguments.shell)
    context.console.answer({"shell": arguments.shell, "script": script}, *script.split("\n"))
