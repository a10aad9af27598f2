"""``Settings``: the settings of the files of one folder."""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from functools import cache

from torchlint.findings.diagnostic import Applicability, Diagnostic
from torchlint.model.option import Option
from torchlint.rule.engine_rules import ENGINE_RULES
from torchlint.rule.registry import load_rules
from torchlint.rule.rule import Default, Rule
from torchlint.settings.globs import Glob, matches
from torchlint.settings.torch_versions import needed_by


@dataclass(frozen=True)
class PerFileIgnore:
    """Codes that are not reported in the files a pattern matches (or, negated, in all others)."""

    glob: Glob
    codes: frozenset[str]
    negated: bool = False


@dataclass(frozen=True)
class PerFileTarget:
    """The oldest torch that the files that a pattern matches support."""

    glob: Glob
    version: tuple[int, int]


@dataclass(frozen=True)
class Settings:
    """The settings of the files of one folder. They can be pickled."""

    codes: frozenset[str]  #: rules that are on
    plugins: tuple[str, ...] = ()
    per_file_ignores: tuple[PerFileIgnore, ...] = ()
    exclude: tuple[Glob, ...] = ()
    src: tuple[str, ...] = ()  #: further folders from which absolute imports are resolved
    respect_gitignore: bool = True
    force_exclude: bool = False
    #: Oldest torch version the project supports, (major, minor), if known
    target_torch: tuple[int, int] | None = None
    target_is_set: bool = False  #: as a setting: then no code shows that the project needs a newer one
    per_file_targets: tuple[PerFileTarget, ...] = ()  #: where it is another one; the first that matches
    output_format: str = "full"
    fail_on: str = "warning"  #: the lowest severity of findings with which a run fails
    unfixable: frozenset[str] = frozenset()  #: rules whose fixes are not offered
    treated_as_safe: frozenset[str] = frozenset()  #: rules whose unsafe fixes count as safe
    treated_as_unsafe: frozenset[str] = frozenset()  #: rules whose safe fixes count as unsafe
    fix: bool = False
    unsafe_fixes: bool = False
    show_fixes: bool = False
    #: CPU seconds that the analysis of a file may take, and some more for its size; 0 for no limit
    timeout: float = 10.0
    isolated_files: bool = False  #: whether each file is analysed by itself, without its project
    ignore_noqa: bool = False
    baseline: str = ""  #: the path of the file whose findings are not reported, if there is one
    ignore_baseline: bool = False
    device: str = "GPU"  #: where speed-ups that matter were measured, as in `torchlint.rule.evidence.gain`
    #: Options of rules that are set: rule name -> option -> value
    options: Mapping[str, Mapping[str, Option]] = field(default_factory=dict)
    warnings: tuple[str, ...] = ()  #: what the user should know about the settings, one line each

    def screened_rules(self) -> tuple[Rule, ...]:
        """The rules that are on by default or selected, whichever torch they need."""
        return _screened(self.plugins, self.codes)

    def rules(self, path: str | None = None, text: str = "") -> tuple[Rule, ...]:
        """The rules to run, by default or in the file at ``path`` with the given text."""
        rules = _enabled(self.plugins, self.codes, self.target_for(path, text))
        if path is None or not self.per_file_ignores:
            return rules
        ignored = self._ignored_in(os.path.abspath(path))
        return tuple(rule for rule in rules if rule.code not in ignored)

    def target_for(self, path: str | None, text: str = "") -> tuple[int, int] | None:
        """The oldest torch that the file at ``path`` with the given text supports; without a path, that of most files.

        Where a requirement states it and the file uses what only a newer torch has, the requirement is out of date.
        """
        if path is not None and self.per_file_targets:
            place = os.path.abspath(path)
            for target in self.per_file_targets:
                if matches((target.glob,), place):
                    return target.version
        if self.target_torch is None or self.target_is_set or not text:
            return self.target_torch
        return max(self.target_torch, needed_by(text) or self.target_torch)

    def with_fix_as_set(self, diagnostic: Diagnostic) -> Diagnostic:
        """The diagnostic with its fix as the settings have it: not at all, or safe or unsafe."""
        fix, code = diagnostic.fix, diagnostic.code
        if fix is None:
            return diagnostic
        if code in self.unfixable:
            return replace(diagnostic, fix=None)
        if fix.applicability is Applicability.UNSAFE and code in self.treated_as_safe:
            return replace(diagnostic, fix=replace(fix, applicability=Applicability.SAFE))
        if fix.applicability is Applicability.SAFE and code in self.treated_as_unsafe:
            return replace(diagnostic, fix=replace(fix, applicability=Applicability.UNSAFE))
        return diagnostic

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
def _screened(plugins: tuple[str, ...], codes: frozenset[str]) -> tuple[Rule, ...]:
    return tuple(rule for rule in load_rules(plugins) if rule.code in codes or rule.default is not Default.OPT_IN)


@cache
def _enabled(plugins: tuple[str, ...], codes: frozenset[str], target_torch: tuple[int, int] | None) -> tuple[Rule, ...]:
    def applies(rule: Rule) -> bool:
        return rule.since is None or target_torch is None or rule.since <= target_torch

    return tuple(rule for rule in load_rules(plugins) if rule.code in codes and applies(rule))
