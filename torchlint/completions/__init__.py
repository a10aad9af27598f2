"""Generates the shell completion scripts in this folder, which ``torchlint generate-shell-completion`` prints.

``python -m torchlint.completions`` (which needs shtab) makes them of the arguments of all commands, with a placeholder
for the codes and names of rules, so that a new rule needs no new scripts.
"""

from __future__ import annotations

import argparse
import re

from torchlint.commands import COMMANDS, load
from torchlint.settings.formats import FORMATS
from torchlint.settings.keys import CHOICES, KEYS

#: Complete one rule, or a list of rules with commas between them. In bash and zsh, also what shtab has no words for:
#: the first word is a command, or `check` was left out.
_FUNCTIONS = {
    "bash": """\
_torchlint_rule() { compgen -W "TORCHLINT-RULES" -- "$1"; }
_torchlint_rules() {
  local before=""
  case "$1" in *,*) before="${1%,*}," ;; esac
  compgen -P "$before" -W "ALL TORCHLINT-RULES" -- "${1##*,}"
}
_torchlint_paths() {
  [ "$COMP_CWORD" -eq 1 ] && compgen -W "TORCHLINT-COMMANDS" -- "$1"
  _shtab_compgen_files "$1"
}
""",
    "zsh": """\
_torchlint_rule() { compadd TORCHLINT-RULES }
_torchlint_rules() { _values -s , rule ALL TORCHLINT-RULES }
functions[_torchlint_commands]=$functions[_shtab_torchlint]
_shtab_torchlint() {
  local -a commands=(TORCHLINT-COMMANDS)
  if (( CURRENT == 2 )) && [[ $words[2] != -* ]]; then
    _alternative "commands:command:_shtab_torchlint_commands" "files:path:_files"
    return
  fi
  if (( ! $commands[(Ie)$words[2]] )); then
    words=($words[1] check "${(@)words[2,-1]}")
    (( CURRENT++ ))
  fi
  _torchlint_commands "$@"
}
""",
    "fish": """\
function _torchlint_file
    printf '%s\\t\\n' (complete -C "'' "(commandline -ct))
end
function _torchlint_rule
    printf '%s\\t\\n' (string split ' ' 'TORCHLINT-RULES')
end
function _torchlint_rules
    set -l before (commandline -ct | string replace -r '^--[^=]*=' '' | string match -r '^.*,')
    printf "$before"'%s\\t\\n' ALL (string split ' ' 'TORCHLINT-RULES')
end
""",
}
#: Values of an option in a script for fish.
_LITERAL_VALUES = re.compile(r'-xka "([^"()]+)"')


def _without_descriptions(values: str) -> str:
    """Values for fish, which would otherwise show the help of the option next to each of them."""
    return " ".join(f"{value}\\t" for value in values.split())


_RULE = {"bash": "_torchlint_rule", "zsh": "_torchlint_rule", "fish": "(_torchlint_rule)"}
_RULES = {"bash": "_torchlint_rules", "zsh": "_torchlint_rules", "fish": "(_torchlint_rules)"}


def generate(shell: str) -> str:
    """The script of a shell as the arguments of the commands ask for; needs shtab."""
    import shtab

    functions = _FUNCTIONS[shell].replace("TORCHLINT-COMMANDS", " ".join(COMMANDS))
    text: str = shtab.complete(_all_arguments(check_left_out=shell != "zsh"), shell, preamble=functions)
    if shell == "zsh":
        text = text.replace('"(*)::', '"*:')  # not only the first path is completed, but all
        # `source <(torchlint ...)` registers the function too, as `eval "$(torchlint ...)"` does.
        text = text.replace("[[ $zsh_eval_context[-1] == eval ]]", "[[ $zsh_eval_context[-1] == (eval|file) ]]")
    if shell == "fish":
        text = _LITERAL_VALUES.sub(lambda match: f'-xka "{_without_descriptions(match[1])}"', text)
        text = text.replace("(__fish_complete_path (commandline -ct))", "(_torchlint_file)")
    return text.rstrip("\n") + "\n"


def _all_arguments(*, check_left_out: bool) -> argparse.ArgumentParser:
    """One parser for all commands, which understands the arguments of ``check`` without it too if asked for."""
    parsers = {name: load(name).parser() for name in COMMANDS}
    parser = argparse.ArgumentParser(prog="torchlint")
    if check_left_out:
        parser = load("check").parser()
    commands = parser.add_subparsers(parser_class=argparse.ArgumentParser)
    for name, own in parsers.items():
        commands.add_parser(name, parents=[own], add_help=False, help=own.description, description=own.description)
    for one in (parser, *commands.choices.values()):
        _say_how_to_complete(one)
    return parser


def _say_how_to_complete(parser: argparse.ArgumentParser) -> None:
    import shtab

    files = dict.fromkeys(
        ("check", "show", "config", "output_file", "baseline", "stdin_filename", "profile"), shtab.FILE
    )
    paths = {**shtab.FILE, "bash": "_torchlint_paths"}  # shtab knows no place for either a command or a path in bash
    lists = dict.fromkeys(
        ("select", "extend_select", "ignore", "extend_ignore", "fixable", "extend_fixable", "unfixable"), _RULES
    )
    complete = {**files, **lists, "paths": paths, "rule": _RULE}
    choices = {"output_format": list(FORMATS), "key": list(KEYS), "device": ["GPU", "CPU"]}
    choices["fail_on"] = list(CHOICES["fail-on"])
    for action in parser._actions:  # noqa: SLF001 - argparse has no public list
        if action.dest in complete:
            action.complete = complete[action.dest]  # type: ignore[attr-defined]
        elif action.choices is None and action.dest in choices:
            action.choices = choices[action.dest]
