"""Settings: pyproject.toml or torchlint.toml, and the command line, become one frozen ``Settings`` per folder."""

from __future__ import annotations

import difflib
import glob
import os
import re
import sys
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cache
from typing import Any

from torchlint.findings.baseline import BaselineError, load
from torchlint.model.option import Option
from torchlint.rule.engine_rules import ENGINE_RULES, InvalidSyntax
from torchlint.rule.evidence import KINDS, nothing_on, reaches
from torchlint.rule.registry import RegistryError, find_rule, load_rules
from torchlint.rule.rule import Default, Rule
from torchlint.settings.formats import FORMATS
from torchlint.settings.globs import Glob, matches
from torchlint.settings.keys import DEFAULT_EXCLUDE, KEYS, TYPES
from torchlint.settings.requirements import listed_in, lower_bound


class SettingsError(Exception):
    """A setting is at fault; the text is one line naming the file, the key and what would be valid."""


@dataclass(frozen=True)
class PerFileIgnore:
    """Codes that are not reported in the files a pattern matches (or, negated, in all others)."""

    glob: Glob
    codes: frozenset[str]
    negated: bool = False


@dataclass(frozen=True)
class Settings:
    """What holds for the files of one folder. It can be pickled."""

    codes: frozenset[str]  #: rules that are on
    plugins: tuple[str, ...] = ()
    per_file_ignores: tuple[PerFileIgnore, ...] = ()
    exclude: tuple[Glob, ...] = ()
    src: tuple[str, ...] = ()  #: further folders from which absolute imports are resolved
    respect_gitignore: bool = True
    force_exclude: bool = False
    #: Oldest torch version the project supports, (major, minor), if known
    target_torch: tuple[int, int] | None = None
    output_format: str = "full"
    fix: bool = False
    unsafe_fixes: bool = False
    show_fixes: bool = False
    isolated_files: bool = False  #: whether each file is analysed by itself, without its project
    ignore_noqa: bool = False
    baseline: str = ""  #: the path of the file whose findings are not reported, if there is one
    ignore_baseline: bool = False
    device: str = "GPU"  #: where speed-ups that matter were measured, as in `torchlint.rule.evidence.gain`
    #: Options of rules that are set: rule name -> option -> value
    options: Mapping[str, Mapping[str, Option]] = field(default_factory=dict)

    def rules(self, path: str | None = None) -> tuple[Rule, ...]:
        """The rules to run, of all files or of the one at ``path``."""
        rules = _enabled(self.plugins, self.codes, self.target_torch)
        if path is None or not self.per_file_ignores:
            return rules
        ignored = self._ignored_in(os.path.abspath(path))
        return tuple(rule for rule in rules if rule.code not in ignored)

    def enabled(self, code: str, path: str) -> bool:
        """Whether a diagnostic that the engine itself gives is reported in the file at ``path``."""
        return code in self.codes and code not in self._ignored_in(os.path.abspath(path))

    def option(self, rule: Rule | type[Rule], name: str) -> Option:
        """The value of a rule's option: as set, else its default."""
        return self.options.get(rule.name, {}).get(name, rule.options[name])

    def options_of(self, rules: Iterable[Rule]) -> Mapping[str, Mapping[str, Option]]:
        """All options of ``rules``: rule name -> option -> value."""
        return {rule.name: {name: self.option(rule, name) for name in rule.options} for rule in rules if rule.options}

    def _ignored_in(self, path: str) -> frozenset[str]:
        ignored = [entry.codes for entry in self.per_file_ignores if matches((entry.glob,), path) is not entry.negated]
        return frozenset().union(*ignored)


def all_rules(plugins: tuple[str, ...] = ()) -> tuple[Rule, ...]:
    """Every rule there is, by code: the engine's own, the built-in pack's and the plugins'. Raises RegistryError."""
    return (*ENGINE_RULES, *load_rules(plugins))


@cache
def _enabled(plugins: tuple[str, ...], codes: frozenset[str], target_torch: tuple[int, int] | None) -> tuple[Rule, ...]:
    def serves(rule: Rule) -> bool:
        return rule.since is None or target_torch is None or rule.since <= target_torch

    return tuple(rule for rule in load_rules(plugins) if rule.code in codes and serves(rule))


@dataclass(frozen=True)
class Layer:
    """One source of settings, its values checked for type: a file, or the command line."""

    where: str  #: for messages
    folder: str  #: patterns are relative to it
    values: Mapping[str, Any]


class Resolver:
    """Finds the settings of a folder: the nearest file up the tree, what it extends, and the command line on top."""

    def __init__(
        self,
        overrides: Sequence[Layer] = (),
        *,
        config: str | None = None,
        isolated: bool = False,
        isolated_files: bool = False,
        ignore_noqa: bool = False,
        ignore_baseline: bool = False,
    ) -> None:
        self._overrides = tuple(overrides)
        self._config = os.path.abspath(config) if config is not None else None
        self._isolated = isolated
        self._ignore_noqa = ignore_noqa
        self._isolated_files = isolated_files
        self._ignore_baseline = ignore_baseline
        self._folders: dict[str, Settings] = {}
        self._nearest: dict[str, tuple[str | None, tuple[int, int] | None]] = {}
        self._settings: dict[tuple[str | None, tuple[int, int] | None], Settings] = {}

    def for_folder(self, folder: str) -> Settings:
        """The settings of the files directly in ``folder``. Raises SettingsError."""
        settings = self._folders.get(folder)
        if settings is None:
            settings = self._folders[folder] = self._resolve(os.path.abspath(folder))
        return settings

    def layers(self, folder: str) -> list[Layer]:
        """What sets something for the files directly in ``folder``, the weakest first. Raises SettingsError."""
        return self._layers(self._source(os.path.abspath(folder))[0])

    def _layers(self, file: str | None) -> list[Layer]:
        return [*(_chain(file) if file is not None else ()), *self._overrides]

    def _source(self, folder: str) -> tuple[str | None, tuple[int, int] | None]:
        """The settings file that holds for a folder, and the torch version that its project asks for."""
        file, target = (None, None) if self._isolated else self._find(folder)
        return (file if self._config is None else self._config), target

    def _resolve(self, folder: str) -> Settings:
        file, target = self._source(folder)
        if (file, target) not in self._settings:
            root = os.path.dirname(file) if file is not None else os.getcwd()
            settings = _combine(self._layers(file), target, self._ignore_noqa, root)
            settings = replace(settings, isolated_files=self._isolated_files)
            if self._ignore_baseline:
                settings = replace(settings, ignore_baseline=True)
            else:
                _check_baseline(settings)
            self._settings[file, target] = settings
        return self._settings[file, target]

    def _find(self, folder: str) -> tuple[str | None, tuple[int, int] | None]:
        """The nearest settings file, and the torch version that the nearest project asks for."""
        if folder not in self._nearest:
            parent = os.path.dirname(folder)
            above: tuple[str | None, tuple[int, int] | None] = (None, None) if parent == folder else self._find(parent)
            self._nearest[folder] = _look_in(folder, above)
        return self._nearest[folder]


def _look_in(
    folder: str, above: tuple[str | None, tuple[int, int] | None]
) -> tuple[str | None, tuple[int, int] | None]:
    file, target = above
    requirements: list[Any] | None = None
    pyproject = os.path.join(folder, "pyproject.toml")
    try:
        with open(pyproject, "rb") as stream:
            data = stream.read()
    except OSError:
        data = b""
    if b"torch" in data:  # else it holds neither settings nor a requirement, and is not parsed
        try:
            table = _parse_toml(data, pyproject)
        except SettingsError:
            if b"torchlint" in data:
                raise
            table = {}
        if "torchlint" in _table(table.get("tool")):
            file = pyproject
        if "project" in table:
            target = None
            dependencies = _table(table["project"]).get("dependencies")
            requirements = dependencies if isinstance(dependencies, list) else None
    if requirements is None:
        requirements = listed_in(folder)
    if requirements:
        target = lower_bound(requirements)
    own = os.path.join(folder, "torchlint.toml")
    return (own if os.path.isfile(own) else file), target


def has_settings(folder: str) -> bool:
    """Whether a folder itself has settings: a torchlint.toml, or a pyproject.toml with ``[tool.torchlint]``."""
    if os.path.isfile(os.path.join(folder, "torchlint.toml")):
        return True
    pyproject = os.path.join(folder, "pyproject.toml")
    try:
        with open(pyproject, "rb") as stream:
            data = stream.read()
        return b"torchlint" in data and "torchlint" in _table(_parse_toml(data, pyproject).get("tool"))
    except OSError:
        return False
    except SettingsError:
        return True  # they are broken, but they are there


def inline_layer(text: str) -> Layer:
    """Settings given as ``key = value`` on the command line. Raises SettingsError."""
    where = f"--config {text!r}"
    return layer_of(_parse_toml(text.encode(), where), where, os.getcwd())


def layer_of(table: Mapping[str, Any], where: str, folder: str) -> Layer:
    """Settings as a table, checked for keys and types. Raises SettingsError."""
    for key, value in table.items():
        if key not in KEYS:
            raise SettingsError(f"{where}: unknown setting `{key}`{_nearest(key, KEYS)}")
        if not KEYS[key].kind.admits(value):
            raise SettingsError(f"{where}: `{key}` must be {KEYS[key].kind.value}, not {value!r}")
    if table.get("output-format", "full") not in FORMATS:
        name = table["output-format"]
        raise SettingsError(f"{where}: unknown `output-format` {name!r}{_nearest(name, FORMATS)}")
    if not re.fullmatch(r"\d+\.\d+(\.\d+)*", table.get("target-torch", "2.0")):
        raise SettingsError(f'{where}: `target-torch` must be a version such as "2.4", not {table["target-torch"]!r}')
    if not 0 <= table.get("min-speedup", 0) < float("inf"):
        raise SettingsError(f"{where}: `min-speedup` must be a factor such as 1.1, not {table['min-speedup']!r}")
    return Layer(where, folder, table)


def _chain(file: str) -> list[Layer]:
    """The layers of a settings file, what it extends first."""
    layers: list[Layer] = []
    seen: list[str] = []
    following: str | None = file
    while following is not None:
        if following in seen:
            raise SettingsError(f"{_display(seen[-1])}: `extend` leads back to {_display(following)}")
        seen.append(following)
        try:
            with open(following, "rb") as stream:
                data = stream.read()
        except OSError as error:
            by = f" (extended by {_display(seen[-2])})" if len(seen) > 1 else ""
            raise SettingsError(f"{_display(following)}: cannot be read: {error.strerror}{by}") from error
        table = _parse_toml(data, following)
        if os.path.basename(following) == "pyproject.toml":
            table = _table(table.get("tool")).get("torchlint", {})
            if not isinstance(table, dict):
                raise SettingsError(f"{_display(following)}: `tool.torchlint` must be a table")
        folder = os.path.dirname(following)
        layers.append(layer_of(table, _display(following), folder))
        extended = table.get("extend")
        following = os.path.normpath(os.path.join(folder, os.path.expanduser(extended))) if extended else None
    return layers[::-1]


def _combine(layers: Sequence[Layer], target: tuple[int, int] | None, ignore_noqa: bool, root: str) -> Settings:
    values = {key: value for layer in layers for key, value in layer.values.items()}
    plugins = tuple(dict.fromkeys(name for layer in layers for name in layer.values.get("plugins", ())))
    try:
        rules = all_rules(plugins)
    except RegistryError as error:
        raise SettingsError(str(error)) from error
    if "target-torch" in values:
        major, minor = values["target-torch"].split(".")[:2]
        target = int(major), int(minor)
    return Settings(
        codes=_fast_enough(_select(layers, rules), layers),
        plugins=plugins,
        per_file_ignores=_per_file_ignores(layers, rules),
        exclude=_excluded(layers, root),
        src=_sources(layers),
        respect_gitignore=values.get("respect-gitignore", True),
        force_exclude=values.get("force-exclude", False),
        target_torch=target,
        output_format=values.get("output-format", "full"),
        fix=values.get("fix", False),
        unsafe_fixes=values.get("unsafe-fixes", False),
        show_fixes=values.get("show-fixes", False),
        ignore_noqa=ignore_noqa,
        baseline=_baseline(layers),
        device=values.get("device", "GPU"),
        options=_options(layers, rules),
    )


def _baseline(layers: Sequence[Layer]) -> str:
    """The absolute path of the baseline; an empty one takes back what a layer below has set."""
    for layer in reversed(layers):
        if "baseline" in layer.values:
            given = layer.values["baseline"]
            return os.path.abspath(os.path.join(layer.folder, os.path.expanduser(given))) if given else ""
    return ""


def _check_baseline(settings: Settings) -> None:
    if settings.baseline:
        try:
            load(settings.baseline)
        except BaselineError as error:
            raise SettingsError(f"{_display(settings.baseline)}: {error}") from error


def _select(layers: Sequence[Layer], rules: Sequence[Rule]) -> frozenset[str]:
    """The rules that are on. Within a layer the more specific selector wins, and at a tie ``ignore``.

    A layer that has ``select`` starts anew, but what the layer before it ignored stays ignored, unless it is selected
    more specifically.
    """
    chosen = {rule.code for rule in rules if rule.default is not Default.OPT_IN}
    carried: list[tuple[int, frozenset[str]]] = []
    ignored_syntax = False
    for layer in layers:
        selects = [_expand(text, rules, layer, "select") for text in layer.values.get("select", ())]
        selects += [_expand(text, rules, layer, "extend-select") for text in layer.values.get("extend-select", ())]
        ignores = [_expand(text, rules, layer, "ignore") for text in layer.values.get("ignore", ())]
        ignored_syntax = ignored_syntax or any(InvalidSyntax.code in codes for _, codes in ignores)
        if "select" in layer.values:
            chosen = set()
            ignores = carried + ignores
        steps = [(level, 0, codes) for level, codes in selects] + [(level, 1, codes) for level, codes in ignores]
        for _, ignore, codes in sorted(steps, key=lambda step: step[:2]):
            chosen = chosen - codes if ignore else chosen | codes
        carried = ignores
    # A run that cannot read a file must say so, whatever it was asked to look for.
    return frozenset(chosen - {InvalidSyntax.code} if ignored_syntax else chosen | {InvalidSyntax.code})


def _fast_enough(codes: frozenset[str], layers: Sequence[Layer]) -> frozenset[str]:
    """Those of ``codes`` that ``min-speedup`` lets pass. What the engine itself reports is no matter of speed."""
    set_by = {key: layer for layer in layers for key in ("min-speedup", "device") if key in layer.values}
    factor = set_by["min-speedup"].values["min-speedup"] if "min-speedup" in set_by else 0
    device = set_by["device"].values["device"] if "device" in set_by else "GPU"
    if not factor and device.upper() in KINDS:
        return codes
    missing = nothing_on(device)
    if missing:
        where = (set_by.get("device") or set_by["min-speedup"]).where
        raise SettingsError(f"{where}: {missing}")
    engine = {rule.code for rule in ENGINE_RULES}
    return frozenset(code for code in codes if not factor or code in engine or reaches(code, factor, device))


def _expand(text: str, rules: Sequence[Rule], layer: Layer, key: str) -> tuple[int, frozenset[str]]:
    """How specific a selector is, and the codes it stands for. Raises SettingsError."""
    selector = text.strip()
    if selector == "ALL":
        return 0, frozenset(rule.code for rule in rules)
    rule = find_rule(rules, selector)
    if rule is not None:
        return 1000, frozenset({rule.code})
    letters = selector.upper().rstrip("0123456789")
    codes = {rule.code for rule in rules if rule.code.startswith(selector.upper())}
    if letters and any(code.rstrip("0123456789") == letters for code in codes):
        return len(selector), frozenset(codes)
    known = [name for rule in rules for name in (rule.code, rule.name)]
    raise SettingsError(f"{layer.where}: unknown rule {text!r} in `{key}`{_nearest(selector, known)}")


def _per_file_ignores(layers: Sequence[Layer], rules: Sequence[Rule]) -> tuple[PerFileIgnore, ...]:
    for layer in reversed(layers):
        if "per-file-ignores" in layer.values:
            entries = []
            for pattern, selectors in layer.values["per-file-ignores"].items():
                codes = frozenset[str]().union(
                    *(_expand(text, rules, layer, "per-file-ignores")[1] for text in selectors)
                )
                entries.append(PerFileIgnore(Glob(pattern.lstrip("!"), layer.folder), codes, pattern.startswith("!")))
            return tuple(entries)
    return ()


def _excluded(layers: Sequence[Layer], root: str) -> tuple[Glob, ...]:
    exclude = [Glob(pattern, root) for pattern in DEFAULT_EXCLUDE]
    extended: list[Glob] = []
    for layer in layers:
        if "exclude" in layer.values:
            exclude = [Glob(pattern, layer.folder) for pattern in layer.values["exclude"]]
        extended += [Glob(pattern, layer.folder) for pattern in layer.values.get("extend-exclude", ())]
    return (*exclude, *extended)


def _sources(layers: Sequence[Layer]) -> tuple[str, ...]:
    """The absolute folders of ``src``; patterns are expanded."""
    for layer in reversed(layers):
        if "src" in layer.values:
            found: dict[str, None] = {}
            for given in layer.values["src"]:
                place = os.path.join(layer.folder, os.path.expanduser(given))
                pattern = os.path.join(glob.escape(layer.folder), os.path.expanduser(given))
                folders = sorted(glob.glob(pattern)) if glob.has_magic(given) else [place]
                found.update(dict.fromkeys(os.path.abspath(folder) for folder in folders))
            return tuple(found)
    return ()


def _options(layers: Sequence[Layer], rules: Sequence[Rule]) -> Mapping[str, Mapping[str, Option]]:
    merged: dict[str, dict[str, Option]] = {}
    for layer in layers:
        for name, table in layer.values.get("rules", {}).items():
            rule = find_rule(rules, name)
            if rule is None or rule.name != name:
                hint = f"; the rule's name is `{rule.name}`" if rule else _nearest(name, [rule.name for rule in rules])
                raise SettingsError(f"{layer.where}: unknown rule name in `rules.{name}`{hint}")
            for key, value in table.items():
                if key not in rule.options:
                    hint = _nearest(key, rule.options) if rule.options else "; the rule has no options"
                    raise SettingsError(f"{layer.where}: unknown option `rules.{name}.{key}`{hint}")
                kind = type(rule.options[key])
                if kind is float and type(value) is int:
                    value = float(value)
                if type(value) is not kind:
                    raise SettingsError(f"{layer.where}: `rules.{name}.{key}` must be {TYPES[kind]}, not {value!r}")
                merged.setdefault(name, {})[key] = value
    return merged


def _parse_toml(data: bytes, where: str) -> dict[str, Any]:
    if sys.version_info >= (3, 11):
        import tomllib
    else:
        import tomli as tomllib
    try:
        return tomllib.loads(data.decode("utf-8-sig"))
    except UnicodeDecodeError as error:
        raise SettingsError(f"{_display(where)}: not UTF-8: {error.reason}") from error
    except (tomllib.TOMLDecodeError, RecursionError) as error:
        raise SettingsError(f"{_display(where)}: not valid TOML: {error or 'too deeply nested'}") from error


def _table(value: object) -> dict[str, Any]:
    return value if isinstance(value, dict) else {}


def _display(path: str) -> str:
    """A path as short as it can be said from here."""
    if not os.path.isabs(path):
        return path
    relative = os.path.relpath(path)
    return path if relative.startswith("..") else relative


def _nearest(word: str, known: Iterable[str]) -> str:
    matches = {name.lower(): name for name in known}
    close = difflib.get_close_matches(word.lower(), matches, n=1, cutoff=0.4)
    return f"; did you mean `{matches[close[0]]}`?" if close else ""
