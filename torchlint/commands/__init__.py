"""The subcommands, one file each, with ``run(arguments) -> exit status``; here is what they share.

They import what they need when they run, so that ``torchlint --version`` stays quick.
"""

from __future__ import annotations

import argparse
import difflib
import importlib
import os
import re
import sys
import textwrap
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, NoReturn

from torchlint.output.colour import CHOICES, choose, is_coloured, styled, terminal_width

if TYPE_CHECKING:
    from _typeshed import SupportsWrite

    from torchlint.rule.rule import Rule
    from torchlint.settings.layers import Layer, SettingsError
    from torchlint.settings.resolver import Given, Resolver
    from torchlint.settings.settings import Settings

CLEAN, FINDINGS, FAULT = 0, 1, 2

#: Command -> the module of ``torchlint.commands`` that runs it. ``check`` may be left out.
COMMANDS = {
    "check": "check",
    "explain": "explain",
    "rules": "rules",
    "families": "families",
    "config": "config",
    "measure": "measure",
    "profile": "profile",
    "server": "server",
    "clean": "clean",
    "generate-shell-completion": "completion",
    "version": "version",
    "help": "help",
}
#: What the help says about each.
SUMMARIES = {
    "check": "find and fix performance anti-patterns (the default)",
    "explain": "show the pages of rules",
    "rules": "list the rules",
    "families": "list the families of rules",
    "config": "explain settings, check a settings file, show the settings in effect",
    "measure": "time the example programs of rules, or fixes in a script",
    "profile": "record some steps of a script for `check --profile`",
    "server": "run the language server",
    "clean": "delete caches",
    "generate-shell-completion": "print a completion script for bash, zsh or fish",
    "version": "print the version",
    "help": "print the help of a command",
}
#: Names of ruff's for the same commands.
SYNONYMS = {"rule": "explain", "linter": "families"}


def load(command: str) -> Any:
    """The module of ``torchlint.commands`` that runs a command."""
    return importlib.import_module(f"{__name__}.{COMMANDS[command]}")


class UsageError(Exception):
    """The command line or a setting is not valid; the text is one line for the user."""

    def __init__(self, message: str, causes: Sequence[SettingsError] = ()) -> None:
        super().__init__(message)
        self.causes = causes  #: settings that are not valid

    def report(self) -> None:
        """Print what is not valid, with the lines of the settings file."""
        report_all(*(one for first in self.causes for one in (first, *first.others)))
        if not self.causes:
            report_error(str(self))


class _ChooseColour(argparse.Action):
    """``--color``, which applies to the help and to the errors of the options after it as well."""

    def __call__(
        self,
        parser: argparse.ArgumentParser,
        namespace: argparse.Namespace,
        values: str | Sequence[Any] | None,
        option_string: str | None = None,
    ) -> None:
        choose(str(values))


class _HelpFormatter(argparse.HelpFormatter):
    """Keeps lists of lines as they are, and words whole."""

    def __init__(self, prog: str) -> None:
        super().__init__(prog, width=terminal_width() - 2)  # without a width, argparse imports what takes long

    def _fill_text(self, text: str, width: int, indent: str) -> str:
        return text if "\n" in text else super()._fill_text(text, width, indent)

    def _split_lines(self, text: str, width: int) -> list[str]:
        return textwrap.wrap(" ".join(text.split()), width, break_on_hyphens=False, break_long_words=False)


class Parser(argparse.ArgumentParser):
    """The arguments of a command. An error is one line that names the nearest option; the help is coloured."""

    def __init__(
        self, prog: str, description: str, usage: str | None = None, epilog: str | None = None, *, shared: bool = True
    ) -> None:
        """With ``shared``, it has the options that are accepted before each command."""
        super().__init__(prog, usage, description, epilog, formatter_class=_HelpFormatter, allow_abbrev=False)
        if sys.version_info >= (3, 14):
            self.color = False  # NO_COLOR and the like are read here
        self.add_argument(
            "--color", action=_ChooseColour, choices=CHOICES, help="when to colour output (default: auto)"
        )
        if shared:
            group = self.add_argument_group("options of all commands")
            add_amount(group, "print more (`check` only)", "print results only", "print results only, and no errors")
            add_settings(group)

    def options(self, arguments: Sequence[str]) -> argparse.Namespace:
        """The options that are given, after --silent has taken effect."""
        return _silenced(self.parse_args(arguments))

    def options_and_paths(self, arguments: Sequence[str]) -> argparse.Namespace:
        """The same; ``paths`` are also what is on both sides of an option, and all that follows ``--``."""
        end = arguments.index("--") if "--" in arguments else len(arguments)
        options = self.parse_intermixed_args(arguments[:end])
        options.paths += arguments[end + 1 :]
        return _silenced(options)

    def print_help(self, file: SupportsWrite[str] | None = None) -> None:
        """Print the help, in colour where that is wanted."""
        if file is not None or not is_coloured(sys.stdout):
            super().print_help(file)
            return
        text = _OPTION.sub(lambda match: styled(match[0], "name", sys.stdout), self.format_help())
        sys.stdout.write(_HEADING.sub(lambda match: styled(match[0], "heading", sys.stdout), text))

    def error(self, message: str) -> NoReturn:
        if message.startswith("unrecognized arguments:"):
            word = message.split()[2].partition("=")[0]
            known = [name for name in self._option_string_actions if name.startswith("--")]
            close = difflib.get_close_matches(word, known, n=1)
            message = f"unknown option `{word}`" + (f"; did you mean `{close[0]}`?" if close else "; see --help")
        raise UsageError(message)


def add_amount(group: argparse._ArgumentGroup, verbose: str, quiet: str, silent: str) -> None:
    """Add the options that say how much is printed, with the help of each."""
    amount = group.add_mutually_exclusive_group()
    amount.add_argument("-v", "--verbose", action="store_true", help=verbose)
    amount.add_argument("-q", "--quiet", action="store_true", help=quiet)
    amount.add_argument("-s", "--silent", action="store_true", help=silent)


def add_settings(group: argparse._ArgumentGroup) -> None:
    """Add the options that say where settings are read from."""
    group.add_argument(
        "--config", action="append", metavar="FILE|KEY=VALUE", help="a settings file, or one setting in TOML"
    )
    group.add_argument("--isolated", action="store_true", help="ignore all settings files")


def _silenced(options: argparse.Namespace) -> argparse.Namespace:
    if options.silent:
        silence()
        options.quiet = True
    return options


#: What is coloured in a help text.
_HEADING = re.compile(r"^[A-Za-z][A-Za-z ]*:", re.MULTILINE)
_OPTION = re.compile(r"(?<![\w-])--?[A-Za-z][\w-]*")


def suggested(word: str, known: Iterable[str]) -> str:
    """The end of an error message: the known word that is most similar to ``word``, or nothing."""
    close = difflib.get_close_matches(word.lower(), known, n=1)
    return f"; did you mean `{close[0]}`?" if close else ""


_silent = False


def silence() -> None:
    """Print no errors and warnings any more, as ``--silent`` asks."""
    global _silent
    _silent = True


def report_warning(message: str) -> None:
    """Print a warning, in one line on standard error."""
    from torchlint.output.text import printable

    if not _silent:
        print(f"{styled('warning:', 'warning', sys.stderr)} {printable(message)}", file=sys.stderr)


def report_error(message: str, excerpt: str = "") -> None:
    """Print an error, in one line on standard error; below it the lines of an excerpt."""
    from torchlint.output.text import printable

    if _silent:
        return
    print(f"{styled('error:', 'error', sys.stderr)} {printable(message)}", file=sys.stderr)
    for line in excerpt.splitlines():
        print(printable(line), file=sys.stderr)


def report_all(*errors: str | SettingsError) -> None:
    """Print errors, those of settings with the lines of the file."""
    for error in errors:
        report_error(str(error), "" if isinstance(error, str) else error.excerpt)


def settings_for(resolver: Resolver, folder: str) -> Settings:
    """The settings of a folder. Raises UsageError if they are not valid."""
    with usage_errors():
        return resolver.for_folder(folder or ".")


@contextmanager
def usage_errors() -> Iterator[None]:
    """Raises UsageError if settings are not valid that are read within this context."""
    from torchlint.settings.layers import SettingsError

    try:
        yield
    except SettingsError as error:
        raise UsageError(str(error), causes=(error,)) from error


def given_settings(options: argparse.Namespace) -> Given:
    """What ``--config`` and ``--isolated`` say. Raises UsageError."""
    from torchlint.settings.layers import inline_layers
    from torchlint.settings.resolver import Given

    config = None
    layers: list[Layer] = []
    with usage_errors():
        for text in options.config or ():
            if "=" in text and not os.path.exists(text):
                layers += inline_layers(text)
            elif config is not None:
                raise UsageError(f"--config names two files: {config} and {text}")
            elif options.isolated:
                raise UsageError("--config with a file and --isolated exclude each other")
            else:
                config = text
    return Given(tuple(layers), config, options.isolated)


def known_rules(options: argparse.Namespace) -> list[Rule]:
    """All rules there are in this folder: torchlint's and those of its plugins."""
    from torchlint.settings.settings import all_rules

    return list(all_rules(settings_for(given_settings(options).resolver(), "").plugins))


def rules_named(word: str, rules: Sequence[Rule]) -> list[Rule]:
    """The rule with that code or name, or those whose codes begin with it. Raises UsageError."""
    from torchlint.rule.registry import find_rule, rules_below

    rule = find_rule(rules, word)
    found = [rule] if rule is not None else rules_below(rules, word)
    if not found:
        names = {name.lower(): name for rule in rules for name in (rule.code, rule.name)}
        close = difflib.get_close_matches(word.lower(), names, n=1)
        hint = f"did you mean `{names[close[0]]}`?" if close else "`torchlint rules` lists them"
        raise UsageError(f"unknown rule `{word}`; {hint}")
    return found


def report_evidence_problems() -> None:
    """Print a warning for each file of the user's own measurements that this run could not read."""
    from torchlint.rule.evidence import problems

    for problem in problems():
        report_warning(problem)
