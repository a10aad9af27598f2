"""The settings: the keys of ``[tool.torchlint]``, each with its kind, default and meaning.

The settings check values against this table, and ``torchlint config`` explains it.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from enum import Enum
from typing import Any

from torchlint.settings.formats import FORMATS

#: Folders that contain no code of the project itself; the list is ruff's.
DEFAULT_EXCLUDE = (
    ".bzr",
    ".direnv",
    ".eggs",
    ".git",
    ".git-rewrite",
    ".hg",
    ".ipynb_checkpoints",
    ".mypy_cache",
    ".nox",
    ".pants.d",
    ".pyenv",
    ".pytest_cache",
    ".pytype",
    ".ruff_cache",
    ".svn",
    ".torchlint_cache",
    ".tox",
    ".venv",
    ".vscode",
    "__pypackages__",
    "_build",
    "buck-out",
    "dist",
    "node_modules",
    "site-packages",
    "venv",
)


class SettingType(Enum):
    """What a value is; the text says what is expected."""

    BOOL = "true or false"
    STRING = "a string"
    NUMBER = "a number"
    VERSION = 'a version such as "2.4"'
    STRINGS = "a list of strings"
    CODES = "a list of rule codes, prefixes or names"
    CODE_TABLE = "a table from file patterns to lists of rule codes"
    VERSION_TABLE = "a table from file patterns to versions"
    TABLES = "a table of tables, one per rule"

    def admits(self, value: object) -> bool:
        """Whether ``value``, as TOML gives it, is of this kind."""
        if self is SettingType.BOOL:
            return isinstance(value, bool)
        if self is SettingType.STRING:
            return isinstance(value, str)
        if self is SettingType.NUMBER:
            return isinstance(value, (int, float)) and not isinstance(value, bool)
        if self is SettingType.VERSION:
            return isinstance(value, (str, int, float)) and _VERSION.fullmatch(version_text(value)) is not None
        if self in (SettingType.STRINGS, SettingType.CODES):
            return isinstance(value, list) and all(isinstance(item, str) for item in value)
        if self is SettingType.CODE_TABLE:
            return isinstance(value, dict) and all(SettingType.CODES.admits(item) for item in value.values())
        if self is SettingType.VERSION_TABLE:
            return isinstance(value, dict) and all(SettingType.VERSION.admits(item) for item in value.values())
        return isinstance(value, dict) and all(isinstance(item, dict) for item in value.values())

    def normal(self, value: Any) -> Any:
        """An admitted value in the form in which the settings take it."""
        if self is SettingType.VERSION_TABLE:
            return {pattern: version_text(item) for pattern, item in value.items()}
        return version_text(value) if self is SettingType.VERSION else value


_VERSION = re.compile(r"\d{1,9}\.\d{1,9}(\.\d+)*")


class WrittenFloat(float):
    """A number of TOML that knows how it is written: as a version, 2.10 is not 2.1."""

    def __new__(cls, text: str) -> WrittenFloat:
        """A number and its text."""
        number = super().__new__(cls, text)
        number.text = text
        return number

    text: str


def version_text(value: object) -> str:
    """A version that may be written as a number."""
    return value.text if isinstance(value, WrittenFloat) else str(value)


#: What the value of a rule's option is, by the type of its default, in the same words.
TYPES: Mapping[type, str] = {bool: "true or false", int: "an integer", float: "a number", str: "a string"}


@dataclass(frozen=True)
class Key:
    """One setting."""

    kind: SettingType
    default: str  #: as it would be written in TOML, or in words where there is no such value
    meaning: str  #: one or two sentences
    example: str  #: a line of TOML


KEYS: Mapping[str, Key] = {
    "baseline": Key(
        SettingType.STRING,
        "none",
        "A file of known findings, which are not reported, relative to this file; `--update-baseline` writes it.",
        'baseline = "torchlint-baseline.json"',
    ),
    "cache-dir": Key(
        SettingType.STRING,
        '".torchlint_cache"',
        "The folder of the cache, relative to this file; without a settings file, to the current folder.",
        'cache-dir = ".cache/torchlint"',
    ),
    "device": Key(
        SettingType.STRING,
        "a GPU, or a CPU while there are no measurements on a GPU",
        'Whose measurements `min-speedup` and `--sort gain` use: "GPU", "CPU", or a part of a device\'s name. Of '
        "several devices that match, the one with the largest speed-up counts.",
        'device = "CPU"',
    ),
    "exclude": Key(
        SettingType.STRINGS,
        "folders of tools, such as .git, .venv and node_modules",
        "Paths to skip, instead of the default ones: names of files or folders, or patterns relative to this file.",
        'exclude = [".venv", "third_party"]',
    ),
    "extend": Key(
        SettingType.STRING,
        "none",
        "Another settings file, relative to this one, whose settings this one adds to.",
        'extend = "../torchlint.toml"',
    ),
    "extend-exclude": Key(
        SettingType.STRINGS,
        "[]",
        "Paths to skip, in addition to those of `exclude`.",
        'extend-exclude = ["third_party"]',
    ),
    "extend-fixable": Key(
        SettingType.CODES,
        "[]",
        "Rules whose fixes may be applied, in addition to those of `fixable`.",
        'extend-fixable = ["TL1"]',
    ),
    "extend-per-file-ignores": Key(
        SettingType.CODE_TABLE,
        "{}",
        "Patterns and rules in addition to those of `per-file-ignores`.",
        'extend-per-file-ignores = { "scripts/*" = ["TL2"] }',
    ),
    "extend-safe-fixes": Key(
        SettingType.CODES,
        "[]",
        "Rules whose unsafe fixes are treated as safe. The more specific of this and `extend-unsafe-fixes` takes "
        "precedence.",
        'extend-safe-fixes = ["TL301"]',
    ),
    "extend-select": Key(
        SettingType.CODES,
        "[]",
        "Rules to run, in addition to those of `select`.",
        'extend-select = ["TL403"]',
    ),
    "extend-unsafe-fixes": Key(
        SettingType.CODES,
        "[]",
        "Rules whose safe fixes are treated as unsafe.",
        'extend-unsafe-fixes = ["TL303"]',
    ),
    "fail-on": Key(
        SettingType.STRING,
        '"warning"',
        'The lowest severity of findings with which a run ends with exit status 1: "warning" or "info".',
        'fail-on = "info"',
    ),
    "fix": Key(
        SettingType.BOOL,
        "false",
        "Apply safe fixes, as `--fix` does.",
        "fix = true",
    ),
    "fixable": Key(
        SettingType.CODES,
        '["ALL"]',
        "Rules whose fixes may be offered and applied. The more specific of this and `unfixable` takes precedence.",
        'fixable = ["TL1", "TL3"]',
    ),
    "force-exclude": Key(
        SettingType.BOOL,
        "false",
        "Skip excluded files even if they are named on the command line, as pre-commit does.",
        "force-exclude = true",
    ),
    "ignore": Key(
        SettingType.CODES,
        "[]",
        "Rules not to run.",
        'ignore = ["TL102"]',
    ),
    "min-speedup": Key(
        SettingType.NUMBER,
        "0",
        "Of the selected rules, run only those whose before/after program was measured on `device` to run at least "
        "this many times as fast, by the lower end of the 95 % interval. Stale results do not count. 0 means all "
        "rules.",
        "min-speedup = 1.1",
    ),
    "output-format": Key(
        SettingType.STRING,
        '"full"',
        f"How findings are shown: {', '.join(FORMATS)}.",
        'output-format = "concise"',
    ),
    "per-file-ignores": Key(
        SettingType.CODE_TABLE,
        "{}",
        "Rules not to run in the files that a pattern matches; a `!` before the pattern means all other files.",
        'per-file-ignores = { "tests/*" = ["TL1"] }',
    ),
    "per-file-target-torch": Key(
        SettingType.VERSION_TABLE,
        "{}",
        "The oldest version of torch that the files that a pattern matches support, instead of `target-torch`. The "
        "first pattern that matches counts.",
        'per-file-target-torch = { "examples/*" = "2.6" }',
    ),
    "plugins": Key(
        SettingType.STRINGS,
        "[]",
        "Packages with further rules. Importing them runs their code, so those of a settings file are not loaded "
        "unless `--allow-plugins` or the environment variable `TORCHLINT_ALLOW_PLUGINS=1` allows it.",
        'plugins = ["my_rules"]',
    ),
    "preview": Key(
        SettingType.BOOL,
        "false",
        "Run the selected rules that are in preview too: new ones, whose findings may still change. Without it they do "
        "not run, even if they are selected.",
        "preview = true",
    ),
    "respect-gitignore": Key(
        SettingType.BOOL,
        "true",
        "Skip what git ignores.",
        "respect-gitignore = false",
    ),
    "rules": Key(
        SettingType.TABLES,
        "{}",
        "Options of single rules, by rule name; `torchlint explain` lists them.",
        'rules.single-process-dataloader.num-workers = "4"',
    ),
    "select": Key(
        SettingType.CODES,
        "the rules that are on by default",
        "Rules to run: codes, prefixes, names or ALL. The more specific of `select` and `ignore` takes precedence.",
        'select = ["TL1", "missing-eval"]',
    ),
    "show-fixes": Key(
        SettingType.BOOL,
        "false",
        "List the applied fixes.",
        "show-fixes = true",
    ),
    "src": Key(
        SettingType.STRINGS,
        "[]",
        "Folders from which absolute imports are resolved, in addition to the project's root, its `src` and its `lib`. "
        "They are relative to this file and may contain wildcards, as in ruff's `src`.",
        'src = ["python", "packages/*/src"]',
    ),
    "target-torch": Key(
        SettingType.VERSION,
        "the oldest torch that the project's requirements allow; an open lower bound counts as 1.11 at least",
        "Oldest version of torch that the project supports; rules that need a newer one do not run.",
        'target-torch = "2.4"',
    ),
    "timeout": Key(
        SettingType.NUMBER,
        "10",
        "How many seconds of CPU time the analysis of a file may take, and as much again for every 200,000 characters "
        "of the files that are analysed with it. A file that takes longer is skipped with an error. 0 means no limit.",
        "timeout = 60",
    ),
    "unfixable": Key(
        SettingType.CODES,
        "[]",
        "Rules whose fixes are neither offered nor applied.",
        'unfixable = ["TL301"]',
    ),
    "unsafe-fixes": Key(
        SettingType.BOOL,
        "false",
        "Include fixes that may change numerics, random state or behaviour.",
        "unsafe-fixes = true",
    ),
}

#: Settings that take one of a few strings.
CHOICES: Mapping[str, tuple[str, ...]] = {"output-format": FORMATS, "fail-on": ("warning", "info")}
