"""``torchlint config``: explains the settings, validates a settings file, shows what is in force."""

from __future__ import annotations

import difflib
import json
import os
import sys
import textwrap
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, TextIO

from torchlint.commands import CLEAN, Parser, UsageError, given_settings, known_rules, settings_for, usage_errors
from torchlint.settings.keys import CHOICES, KEYS, TYPES, SettingType

if TYPE_CHECKING:
    from torchlint.rule.rule import Rule
    from torchlint.settings.layers import Layer
    from torchlint.settings.resolver import Resolver


def parser() -> Parser:
    """Its arguments."""
    parser = Parser(
        prog="torchlint config",
        description="Explain the settings: all of them, or one. Validate a settings file. Show what is in force.",
    )
    parser.add_argument("key", nargs="?", metavar="KEY", help="a setting, such as select or rules.<name>.<option>")
    parser.add_argument(
        "--check", nargs="?", const="", metavar="FILE", help="validate FILE, or the settings file of this folder"
    )
    parser.add_argument(
        "--show", nargs="?", const=".", metavar="PATH", help="show the settings for PATH (default: .) and their files"
    )
    parser.add_argument(
        "--output-format",
        choices=("text", "json", "markdown", "json-schema"),
        default="text",
        help="json-schema: of torchlint.toml, for all settings only (default: text)",
    )
    return parser


def run(arguments: Sequence[str]) -> int:
    """Explain, validate or show."""
    options = parser().options(arguments)
    if sum(given is not None for given in (options.key, options.check, options.show)) > 1:
        raise UsageError("KEY, --check and --show exclude each other")
    style = options.output_format
    if options.check is not None or options.show is not None:
        if style not in ("text", "json"):
            raise UsageError(f"--output-format {style} explains settings; it goes with neither --check nor --show")
        given = given_settings(options)
        if options.check is not None:
            _check(options.check or given.config, style, sys.stdout, isolated=given.isolated)
        else:
            show(given.resolver(), options.show, style, sys.stdout)
        return CLEAN
    rules = known_rules(options)
    if options.key is not None and style == "json-schema":
        raise UsageError("--output-format json-schema describes all settings, not one")
    _explain(options.key, rules, style, sys.stdout)
    return CLEAN


@dataclass(frozen=True)
class SettingEntry:
    """What there is to know about one setting, or one option of a rule."""

    name: str
    type: str  #: in words
    default: str  #: as in TOML, or in words
    meaning: str
    example: str  #: one line of TOML
    option: str | None  #: of the command line


def entries(rules: Sequence[Rule]) -> dict[str, SettingEntry]:
    """All settings by name, the options of rules last."""
    from torchlint.commands.arguments import parser as check_parser

    flags = check_parser()._option_string_actions  # noqa: SLF001 - argparse has no public list
    found = {}
    for name, key in KEYS.items():
        option = f"--{name}" if f"--{name}" in flags else None
        found[name] = SettingEntry(name, key.kind.value, key.default, key.meaning, key.example, option)
    for rule in rules:
        for option_name, default in rule.options.items():
            name = f"rules.{rule.name}.{option_name}"
            value = json.dumps(default)  # TOML writes it alike
            meaning = f"An option of {rule.code}; `torchlint explain {rule.code}` says what it does."
            found[name] = SettingEntry(name, TYPES[type(default)], value, meaning, f"{name} = {value}", None)
    return found


def _explain(name: str | None, rules: Sequence[Rule], style: str, out: TextIO) -> None:
    """Write what there is to know about the setting of that name, or all."""
    known = entries(rules)
    chosen = list(known.values()) if name is None else [_find(name, known)]
    if style == "json-schema":
        json.dump(schema(rules), out, indent=2)
        out.write("\n")
    elif style == "json":
        json.dump([vars(entry) for entry in chosen], out, indent=2)
        out.write("\n")
    elif style == "markdown":
        out.write(page(chosen) if name is None else _section(chosen[0]))
    elif name is None:
        for entry in chosen:
            out.write(f"{entry.name} ({entry.type}; default: {entry.default})\n")
            out.write(textwrap.fill(entry.meaning, 100, initial_indent="    ", subsequent_indent="    ") + "\n")
    elif out.isatty():
        from rich.markdown import Markdown

        from torchlint.output.colour import console

        console(out).print(Markdown(_section(chosen[0])))
    else:
        out.write(_section(chosen[0]))


def _find(name: str, known: Mapping[str, SettingEntry]) -> SettingEntry:
    """The setting of that name. Raises UsageError."""
    if name not in known:
        close = difflib.get_close_matches(name.lower(), known, n=1)
        hint = f"did you mean `{close[0]}`?" if close else "`torchlint config` lists them"
        raise UsageError(f"unknown setting `{name}`; {hint}")
    return known[name]


def page(chosen: Sequence[SettingEntry]) -> str:
    """All settings as a page of the site."""
    head = (
        "# Settings\n\nThe keys of `[tool.torchlint]` in `pyproject.toml`, and of `torchlint.toml`. "
        "[Configuration](configuration.md) says which file takes precedence. "
        "`torchlint config KEY` shows this in a terminal.\n"
    )
    return "\n".join([head, *map(_section, chosen)])


def _section(entry: SettingEntry) -> str:
    facts = f"Value: {entry.type}. Default: {_code(entry.default)}."
    facts += f" On the command line: `{entry.option}`." if entry.option else ""
    return f"## `{entry.name}`\n\n{entry.meaning}\n\n{facts}\n\n```toml\n[tool.torchlint]\n{entry.example}\n```\n"


def _code(default: str) -> str:
    """A default value as code, if it is one."""
    return f"`{default}`" if default[0] in '"[{0123456789' or default in ("true", "false") else default


def schema(rules: Sequence[Rule]) -> dict[str, Any]:
    """A JSON schema of torchlint.toml, for editors."""
    strings = {"type": "array", "items": {"type": "string"}}
    types: dict[SettingType, dict[str, Any]] = {
        SettingType.BOOL: {"type": "boolean"},
        SettingType.STRING: {"type": "string"},
        SettingType.NUMBER: {"type": "number"},
        SettingType.VERSION: {"type": ["string", "number"]},
        SettingType.STRINGS: strings,
        SettingType.CODES: strings,
        SettingType.CODE_TABLE: {"type": "object", "additionalProperties": strings},
        SettingType.VERSION_TABLE: {"type": "object", "additionalProperties": {"type": ["string", "number"]}},
    }
    names = {bool: "boolean", int: "integer", float: "number", str: ["string", "number"]}
    options = {
        rule.name: _object({name: {"type": names[type(value)]} for name, value in rule.options.items()})
        for rule in rules
        if rule.options
    }
    properties = {
        name: {"description": key.meaning, **(_object(options) if key.kind is SettingType.TABLES else types[key.kind])}
        for name, key in KEYS.items()
    }
    for name, choices in CHOICES.items():
        properties[name]["enum"] = list(choices)
    return {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "title": "torchlint.toml",
        **_object(properties),
    }


def _object(properties: Mapping[str, Any]) -> dict[str, Any]:
    return {"type": "object", "properties": dict(properties), "additionalProperties": False}


def _check(file: str | None, style: str, out: TextIO, *, isolated: bool) -> None:
    """Validate a settings file, with all that it extends. Raises UsageError."""
    from torchlint.settings.resolver import Resolver

    resolver = Resolver(config=file, isolated=isolated)
    layers = _layers(resolver, ".")
    if not layers:
        raise UsageError("no settings file here or in the folders above; name one: `torchlint config --check FILE`")
    path = layers[-1].where
    if not layers[-1].values and os.path.basename(path) == "pyproject.toml":
        raise UsageError(f"{path}: nothing is set in `[tool.torchlint]`")
    settings_for(resolver, ".")
    if style == "json":
        print(json.dumps({"file": path, "valid": True}), file=out)
    else:
        print(f"{path}: ok", file=out)


def show(resolver: Resolver, path: str, style: str, out: TextIO) -> None:
    """Write what is set for a path, file by file, and what comes of it. Raises UsageError."""
    from torchlint.rule.engine_rules import ENGINE_RULES

    if not os.path.exists(path):
        raise UsageError(f"{path}: no such file or folder")
    is_folder = os.path.isdir(path)
    folder = path if is_folder else os.path.dirname(path)
    settings = settings_for(resolver, folder)
    layers = [layer for layer in _layers(resolver, folder) if layer.values or not layer.trusted]
    rules = [rule.code for rule in ENGINE_RULES if settings.enabled(rule.code, path)]
    rules += [rule.code for rule in settings.rules(None if is_folder else path)]
    version = settings.target_for(None if is_folder else path)
    target = ".".join(map(str, version)) if version else None
    if style == "json":
        files = [{"file": layer.where, "settings": layer.values} for layer in layers]
        json.dump({"files": files, "rules": rules, "target-torch": target}, out, indent=2, default=str)
        out.write("\n")
        return
    for layer in layers:
        print(f"{layer.where}:", file=out)
        for key, value in layer.values.items():
            print(f"    {key} = {_toml(value)}", file=out)
    if not layers:
        print("No settings file: the defaults are in effect.", file=out)
    print(f"target-torch: {target or 'unknown'}", file=out)
    print(textwrap.fill(f"rules: {' '.join(rules)}", 100, subsequent_indent="    "), file=out)


def _layers(resolver: Resolver, folder: str) -> list[Layer]:
    with usage_errors():
        return resolver.layers(folder or ".")


def _toml(value: object) -> str:
    """A value as TOML would write it on one line."""
    if isinstance(value, dict):
        return "{ " + ", ".join(f"{json.dumps(key)} = {_toml(item)}" for key, item in value.items()) + " }"
    if isinstance(value, list):
        return "[" + ", ".join(map(_toml, value)) + "]"
    return json.dumps(value, ensure_ascii=False, default=str)
