"""Print the shell code that completes commands, options and job names when you press Tab."""

import argparse

from argcomplete.shell_integration import shellcode

from octostore.cli.subcommands import Arguments, Context

SHELLS = ("bash", "zsh", "fish")
EXAMPLES = [
    'eval "$(octostore completion bash)"    # in ~/.bashrc; in ~/.zshrc, write zsh instead of bash',
    "octostore completion fish > ~/.config/fish/completions/octostore.fish",
]


def configure(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("shell", choices=SHELLS, help="your shell")


def run(arguments: Arguments, context: Context) -> None:
    script = shellcode(["octostore"], shell=arguments.shell)
    context.console.print_result({"shell": arguments.shell, "script": script}, *script.split("\n"))
