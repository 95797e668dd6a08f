"""Completion of commands, options and names for your shell.

sightline completion bash > ~/.local/share/bash-completion/completions/sightline
sightline completion zsh > "${fpath[1]}/_sightline"
sightline completion fish > ~/.config/fish/completions/sightline.fish
"""

from __future__ import annotations

import argparse

HELP = "completion for bash, zsh and fish"
SHELLS = ("bash", "zsh", "fish")


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("shell", metavar="SHELL", choices=SHELLS, help=", ".join(SHELLS))


def run(args: argparse.Namespace) -> int:
    import shtab

    from sightline.doors.cli.main import build_parser

    parser = build_parser()
    _name_choices(parser)
    print(shtab.complete(parser, args.shell))
    return 0


def _name_choices(parser: argparse.ArgumentParser) -> None:
    """Tell the shell what a command checks only when it runs, and which words are files."""
    import shtab

    from sightline.core import registry

    analyses = list(registry.list_names("analyses"))
    rules = [name.replace("_", "-") for name in registry.list_names("rules")]
    known = {
        ("stats", "analysis"): analyses,
        ("explain", "name"): sorted([*rules, *analyses]),
        ("export", "to"): list(registry.list_names("exporters")),
    }
    for name, command in _commands(parser).items():
        for action in command._actions:
            if (name, action.dest) in known:
                action.choices = known[name, action.dest]
            elif action.dest in ("recordings", "output", "rules", "before", "after"):
                action.complete = shtab.FILE  # type: ignore[attr-defined]


def _commands(parser: argparse.ArgumentParser) -> dict[str, argparse.ArgumentParser]:
    """The sub-commands' parsers, by name."""
    for action in parser._actions:
        if isinstance(action, argparse._SubParsersAction):
            return dict(action.choices)
    return {}
