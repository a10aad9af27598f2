"""Layers of settings -> ``Settings``: which rules are on, which paths are excluded, which options are set."""

from __future__ import annotations

import glob
import os
from collections.abc import Mapping, Sequence

from torchlint.findings.baseline import BaselineError, load
from torchlint.findings.codes import INVALID_SYNTAX
from torchlint.model.option import Option
from torchlint.rule.engine_rules import ENGINE_RULES
from torchlint.rule.evidence import KINDS, nothing_on, reaches
from torchlint.rule.registry import RegistryError, find_rule, rules_below
from torchlint.rule.rule import Default, Rule
from torchlint.settings.globs import Glob
from torchlint.settings.keys import DEFAULT_EXCLUDE, TYPES, version_text
from torchlint.settings.layers import Layer, SettingsError, displayed, path_in, raise_all, suggestion
from torchlint.settings.settings import PerFileIgnore, PerFileTarget, Settings, all_rules

#: What a run says that falls back to these measurements.
ON_CPU = "there are no measurements on a GPU yet; those on a CPU are used"

#: The environment variable that allows the plugins of settings files, if it is "1".
ALLOW_PLUGINS = "TORCHLINT_ALLOW_PLUGINS"


def combine(
    layers: Sequence[Layer],
    target: tuple[int, int] | None,
    ignore_noqa: bool,
    root: str,
    *,
    allow_plugins: bool = False,
) -> Settings:
    """The settings of ``layers``, the weakest first. ``target`` is the oldest torch that the requirements allow.

    ``root`` is the folder to which the default excludes are relative. Raises SettingsError, also for plugins of a
    settings file unless ``allow_plugins`` or the environment allows them.
    """
    values = {key: value for layer in layers for key, value in layer.values.items()}
    plugins = _plugins(layers, allow_plugins or os.environ.get(ALLOW_PLUGINS) == "1")
    try:
        rules = all_rules(plugins)
    except RegistryError as error:
        raise SettingsError(str(error)) from error
    if "target-torch" in values:
        target = _version(values["target-torch"])
    errors: list[SettingsError] = []
    warnings: list[str] = []
    codes = _without_preview(_select(layers, rules, errors), layers, rules, warnings)
    every = frozenset(rule.code for rule in rules)
    unfixable = every - _chosen(layers, rules, every, _FIXABLE, errors)
    as_safe, as_unsafe = _fix_safety(layers, rules, errors)
    device = _device(layers)
    per_file_ignores = _per_file_ignores(layers, rules, errors)
    options = _options(layers, rules, errors)
    raise_all(errors)
    return Settings(
        codes=_fast_enough(codes, rules, layers, device, warnings),
        plugins=plugins,
        per_file_ignores=per_file_ignores,
        exclude=_excluded(layers, root),
        src=_sources(layers),
        respect_gitignore=values.get("respect-gitignore", True),
        force_exclude=values.get("force-exclude", False),
        target_torch=target,
        target_is_set="target-torch" in values,
        per_file_targets=_per_file_targets(layers),
        fail_on=values.get("fail-on", "warning"),
        unfixable=unfixable,
        treated_as_safe=as_safe,
        treated_as_unsafe=as_unsafe,
        output_format=values.get("output-format", "full"),
        fix=values.get("fix", False),
        unsafe_fixes=values.get("unsafe-fixes", False),
        show_fixes=values.get("show-fixes", False),
        ignore_noqa=ignore_noqa,
        baseline=path_in(layers, "baseline"),
        device=device,
        timeout=values.get("timeout", Settings.timeout),
        options=options,
        warnings=tuple(warnings),
    )


def _plugins(layers: Sequence[Layer], allowed: bool) -> tuple[str, ...]:
    """The plugins of all layers. Raises SettingsError for those of a checked repository unless the user allows them."""
    for layer in layers:
        if layer.values.get("plugins") and not (allowed or layer.trusted):
            names = ", ".join(repr(name) for name in layer.values["plugins"])
            raise SettingsError(
                f"{layer.where}: `plugins` ({names}) are not loaded, because importing them runs their code; "
                f"to allow it, pass --allow-plugins or set {ALLOW_PLUGINS}=1"
            )
    return tuple(dict.fromkeys(name for layer in layers for name in layer.values.get("plugins", ())))


def check_baseline(settings: Settings) -> None:
    """Raise SettingsError if the baseline cannot be read."""
    if settings.baseline:
        try:
            load(settings.baseline)
        except BaselineError as error:
            raise SettingsError(f"{displayed(settings.baseline)}: {error}") from error


def _select(layers: Sequence[Layer], rules: Sequence[Rule], errors: list[SettingsError]) -> frozenset[str]:
    """The rules that are on. Within a layer the more specific selector wins, and at a tie ``ignore``.

    A layer with ``select`` starts with no rules, but what the layer before it ignored stays ignored, unless it is
    selected more specifically.
    """
    default = frozenset(rule.code for rule in rules if rule.default is not Default.OPT_IN)
    chosen = _chosen(layers, rules, default, _SELECTED, errors)
    ignored_syntax = any(
        INVALID_SYNTAX.code in codes for layer in layers for _, codes in _expanded(layer, "ignore", rules, [])
    )
    # A file that cannot be read is reported, whatever rules are selected.
    return chosen - {INVALID_SYNTAX.code} if ignored_syntax else chosen | {INVALID_SYNTAX.code}


#: The settings that choose rules, add to the choice, and take away from it: which rules run, and which may be fixed.
_SELECTED = ("select", "extend-select", "ignore")
_FIXABLE = ("fixable", "extend-fixable", "unfixable")


def _chosen(
    layers: Sequence[Layer],
    rules: Sequence[Rule],
    default: frozenset[str],
    keys: tuple[str, str, str],
    errors: list[SettingsError],
) -> frozenset[str]:
    """The rules that the settings ``keys`` choose, by default ``default``."""
    select, extend, ignore = keys
    chosen = default
    carried: list[Selected] = []
    for layer in layers:
        selects = [selected for key in (select, extend) for selected in _expanded(layer, key, rules, errors)]
        ignores = _expanded(layer, ignore, rules, errors)
        if select in layer.values:
            chosen = frozenset()
            ignores = carried + ignores
        steps = [(level, 0, codes) for level, codes in selects] + [(level, 1, codes) for level, codes in ignores]
        for _, is_ignored, codes in sorted(steps, key=lambda step: step[:2]):
            chosen = chosen - codes if is_ignored else chosen | codes
        carried = ignores
    return chosen


def _without_preview(
    codes: frozenset[str], layers: Sequence[Layer], rules: Sequence[Rule], warnings: list[str]
) -> frozenset[str]:
    """The rules without those in preview, unless these are wanted; with a warning for each that is selected itself."""
    preview = {rule.code: rule for rule in rules if rule.preview}
    if not preview or next((layer.values["preview"] for layer in reversed(layers) if "preview" in layer.values), False):
        return codes
    named = {text.strip() for layer in layers for key in _SELECTED[:2] for text in layer.values.get(key, ())}
    for code in sorted(codes & preview.keys()):
        if named & {code, preview[code].name}:
            warnings.append(f"{code} is not run: it is in preview; --preview runs it")
    return codes - preview.keys()


def _fix_safety(
    layers: Sequence[Layer], rules: Sequence[Rule], errors: list[SettingsError]
) -> tuple[frozenset[str], frozenset[str]]:
    """The rules whose unsafe fixes are treated as safe, and those whose safe fixes are treated as unsafe."""
    steps = [
        (level, unsafe, codes)
        for layer in layers
        for unsafe, key in enumerate(("extend-safe-fixes", "extend-unsafe-fixes"))
        for level, codes in _expanded(layer, key, rules, errors)
    ]
    treated = {code: unsafe for _, unsafe, codes in sorted(steps, key=lambda step: step[:2]) for code in codes}
    return (
        frozenset(code for code, unsafe in treated.items() if not unsafe),
        frozenset(code for code, unsafe in treated.items() if unsafe),
    )


def _version(text: str) -> tuple[int, int]:
    major, minor = text.split(".")[:2]
    return int(major), int(minor)


def _per_file_targets(layers: Sequence[Layer]) -> tuple[PerFileTarget, ...]:
    for layer in reversed(layers):
        if "per-file-target-torch" in layer.values:
            table = layer.values["per-file-target-torch"]
            return tuple(PerFileTarget(Glob(pattern, layer.folder), _version(text)) for pattern, text in table.items())
    return ()


def _device(layers: Sequence[Layer]) -> str:
    """Where speed-ups count: as set, else a GPU, or a CPU while there are only measurements on CPUs."""
    given = next((str(layer.values["device"]) for layer in reversed(layers) if "device" in layer.values), None)
    if given is not None:
        return given
    return "CPU" if nothing_on("GPU") and not nothing_on("CPU") else "GPU"


def _fast_enough(
    codes: frozenset[str], rules: Sequence[Rule], layers: Sequence[Layer], device: str, warnings: list[str]
) -> frozenset[str]:
    """Those of ``codes`` that ``min-speedup`` lets pass. What the engine itself reports does not count."""
    set_by = {key: layer for layer in layers for key in ("min-speedup", "device") if key in layer.values}
    factor = set_by["min-speedup"].values["min-speedup"] if "min-speedup" in set_by else 0
    if not factor and device.upper() in KINDS:
        return codes
    if device == "CPU" and "device" not in set_by:
        warnings.append(f"`min-speedup`: {ON_CPU}")
    missing = nothing_on(device)
    if missing:
        where = (set_by.get("device") or set_by["min-speedup"]).where
        raise SettingsError(f"{where}: {missing}")
    slow = {rule.code for rule in rules if factor and not reaches(rule.name, factor, device)}
    return codes - (slow - {rule.code for rule in ENGINE_RULES})


#: How specific a selector is, and the codes that it selects.
Selected = tuple[int, frozenset[str]]


def _expanded(layer: Layer, key: str, rules: Sequence[Rule], errors: list[SettingsError]) -> list[Selected]:
    """The selectors of a setting; unknown ones are skipped, with an error."""
    given = layer.values.get(key, ())
    return [_expand(text, rules, layer, (key, index), errors) for index, text in enumerate(given)]


def _expand(
    text: str, rules: Sequence[Rule], layer: Layer, path: tuple[str | int, ...], errors: list[SettingsError]
) -> Selected:
    """The selector ``text``, which the keys ``path`` set."""
    key = path[0]
    selector = text.strip()
    if selector == "ALL":
        return 0, frozenset(rule.code for rule in rules)
    rule = find_rule(rules, selector)
    if rule is not None:
        return 1000, frozenset({rule.code})
    codes = {rule.code for rule in rules_below(rules, selector)}
    if codes:
        return len(selector), frozenset(codes)
    known = [name for rule in rules for name in (rule.code, rule.name)]
    errors.append(layer.error(f"unknown rule {text!r} in `{key}`{suggestion(selector, known)}", *path))
    return 0, frozenset()


def _per_file_ignores(
    layers: Sequence[Layer], rules: Sequence[Rule], errors: list[SettingsError]
) -> tuple[PerFileIgnore, ...]:
    entries: list[PerFileIgnore] = []
    for layer in layers:
        for key in ("per-file-ignores", "extend-per-file-ignores"):
            if key == "per-file-ignores" and key in layer.values:
                entries = []
            for pattern, selectors in layer.values.get(key, {}).items():
                paths = [(key, pattern, index) for index in range(len(selectors))]
                codes = frozenset[str]().union(
                    *(_expand(text, rules, layer, path, errors)[1] for text, path in zip(selectors, paths, strict=True))
                )
                entries.append(PerFileIgnore(Glob(pattern.lstrip("!"), layer.folder), codes, pattern.startswith("!")))
    return tuple(entries)


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


def _options(
    layers: Sequence[Layer], rules: Sequence[Rule], errors: list[SettingsError]
) -> Mapping[str, Mapping[str, Option]]:
    merged: dict[str, dict[str, Option]] = {}
    for layer in layers:
        for name, table in layer.values.get("rules", {}).items():
            rule = find_rule(rules, name)
            if rule is None or rule.name != name:
                hint = (
                    f"; the rule's name is `{rule.name}`" if rule else suggestion(name, [rule.name for rule in rules])
                )
                errors.append(layer.error(f"unknown rule name in `rules.{name}`{hint}", "rules", name, key=True))
                continue
            for key, value in table.items():
                option = _option(layer, rule, key, value, errors)
                if option is not None:
                    merged.setdefault(name, {})[key] = option
    return merged


def _option(layer: Layer, rule: Rule, key: str, value: object, errors: list[SettingsError]) -> Option | None:
    """The value of an option of a rule; None, and an error, if it is not valid."""
    name, path = f"rules.{rule.name}.{key}", ("rules", rule.name, key)
    if key not in rule.options:
        hint = suggestion(key, rule.options) if rule.options else "; the rule has no options"
        errors.append(layer.error(f"unknown option `{name}`{hint}", *path, key=True))
        return None
    kind = type(rule.options[key])
    if kind is float and isinstance(value, (int, float)) and not isinstance(value, bool):
        return float(value)
    if kind is str and isinstance(value, (int, float)) and not isinstance(value, bool):
        return version_text(value)  # `num-workers = 4` for the expression "4"
    if type(value) is kind:
        return value
    errors.append(layer.error(f"`{name}` must be {TYPES[kind]}, not {value!r}", *path))
    return None
