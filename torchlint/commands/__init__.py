"""The subcommands, one file each, with ``run(arguments) -> exit status``; here is what they share.

They import what they need when they run, so that ``torchlint --version`` stays quick.
"""

from __future__ import annotations

import argparse
import difflib
import sys
from typing import TYPE_CHECKING, NoReturn

if TYPE_CHECKING:
    from torchlint.rule.rule import Rule
    from torchlint.settings.resolver import Resolver
    from torchlint.settings.settings import Settings

CLEAN, FINDINGS, FAULT = 0, 1, 2

#: Command -> the module of ``torchlint.commands`` that runs it. ``check`` may be left out.
COMMANDS = {
    "check": "check",
    "explain": "explain",
    "rules": "rules",
    "config": "config",
    "server": "server",
    "clean": "clean",
    "generate-shell-completion": "completion",
}


class UsageError(Exception):
    """The command line is at fault; the text is one line for the user."""


class Parser(argparse.ArgumentParser):
    """Complains in one line, naming the nearest option."""

    def error(self, message: str) -> NoReturn:
        if message.startswith("unrecognized arguments:"):
            word = message.split()[2].partition("=")[0]
            known = [name for name in self._option_string_actions if name.startswith("--")]
            close = difflib.get_close_matches(word, known, n=1)
            message = f"unknown option `{word}`" + (f"; did you mean `{close[0]}`?" if close else "; see --help")
        raise UsageError(message)


def complain(message: str) -> None:
    """Say what is at fault, in one line on standard error."""
    from torchlint.output.text import printable

    print(f"error: {printable(message)}", file=sys.stderr)


def settings_for(resolver: Resolver, folder: str) -> Settings:
    """The settings of a folder. Raises UsageError where they are at fault."""
    from torchlint.settings.layers import SettingsError

    try:
        return resolver.for_folder(folder or ".")
    except SettingsError as error:
        raise UsageError(str(error)) from error


def known_rules() -> list[Rule]:
    """All rules there are in this folder: torchlint's and those of its plugins."""
    from torchlint.settings.resolver import Resolver
    from torchlint.settings.settings import all_rules

    return list(all_rules(settings_for(Resolver(), "").plugins))
