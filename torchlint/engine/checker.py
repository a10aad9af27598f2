"""Source -> diagnostics: screen, parse, model, rules, suppressions. Every caller uses ``check``."""

from __future__ import annotations

import traceback
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from functools import partial
from typing import TYPE_CHECKING

from torchlint.engine.own_files import fitted, rows_of, within
from torchlint.engine.results import Basis, digest_of
from torchlint.engine.screens import concerned, imports_torch, screen, sketched
from torchlint.findings.baseline import BaselineError, load, unknown
from torchlint.findings.causes import joined
from torchlint.findings.codes import INVALID_SYNTAX, UNUSED_SUPPRESSION
from torchlint.findings.diagnostic import Diagnostic, Fix
from torchlint.findings.suppressions import suppress
from torchlint.rule.rule import Rule
from torchlint.settings.settings import Settings
from torchlint.source import deadline
from torchlint.source.lexemes import code_of
from torchlint.source.parsing import TOO_DEEP, ParseError, check_syntax, garbage_collection_paused
from torchlint.source.paths import in_project, is_in_package, is_vendored
from torchlint.source.source import Source, SourceError
from torchlint.source.stack import StackError, has_large_stack, with_large_stack
from torchlint.source.timing import phase

if TYPE_CHECKING:
    from torchlint.model.module import Module
    from torchlint.model.syntax.context import Context
    from torchlint.project.context import ProjectFile


#: So many characters that are analysed together give an analysis as much time again.
_CHARACTERS = 200_000


class InternalError(Exception):
    """A rule, or the model, raised on a file, which is a bug; the text is one line for the user."""


class AbandonedError(Exception):
    """Nobody waits for the answer any more."""


def raise_crash(crash: InternalError) -> None:
    """What ``check`` does by default about a crash."""
    raise crash


@garbage_collection_paused()
def check(
    source: Source,
    settings: Settings,
    *,
    syntax: bool = False,
    on_crash: Callable[[InternalError], None] = raise_crash,
    on_resolved: Callable[[int], None] = lambda count: None,
    is_cancelled: Callable[[], bool] = lambda: False,
) -> list[Diagnostic]:
    """The diagnostics of one file, sorted.

    A file without the words that the enabled rules look for is only parsed to check its syntax: if it imports torch, or
    if ``syntax`` is set. ``on_crash`` is called for a rule that raised, and the other rules still run; by default
    the crash is raised. ``on_resolved`` is called with the number of findings in the baseline that no longer exist.
    ``is_cancelled`` is asked before the analysis and each rule, and ends the check by raising AbandonedError.
    """
    enabled = settings.rules(source.path, source.text)
    checked = {rule.code for rule in enabled}
    place = in_project(source.path)
    with phase("screen"):
        rules = concerned(source, place, enabled, settings)
        syntax = syntax or (imports_torch(source.text) and not is_vendored(place))
    if rules and is_vendored(place):
        rules, checked = [], set()
    results = _RuleResults(bool(rules))
    try:
        if rules:
            results = _run_rules(source, settings, rules, is_cancelled)
        if not results.parsed and syntax and settings.enabled(INVALID_SYNTAX.code, source.path):
            check_syntax(source.code)
        diagnostics = results.diagnostics
    except ParseError as error:
        diagnostics, checked = [], set()
        if settings.enabled(INVALID_SYNTAX.code, source.path):
            diagnostics = [_invalid_syntax(source, error)]
    except InternalError as crash:
        on_crash(crash)
        return []
    for crashed, reason in results.crashes.items():
        on_crash(reason)
        checked.discard(crashed)
    if (results.parsed or syntax) and source.broken:
        checked = set()
        if settings.enabled(INVALID_SYNTAX.code, source.path):
            diagnostics += [_invalid_syntax(source, error, "this cell") for error in source.broken]
    diagnostics = _reported(source, settings, diagnostics, checked)
    if settings.baseline and not settings.ignore_baseline:
        try:
            diagnostics, resolved = unknown(load(settings.baseline), source, diagnostics, checked)
            on_resolved(resolved)
        except BaselineError as error:
            on_crash(InternalError(f"{settings.baseline}: {error}"))
    return diagnostics


def _reported(source: Source, settings: Settings, found: list[Diagnostic], checked: set[str]) -> list[Diagnostic]:
    """The diagnostics that are not suppressed, joined by their causes and sorted.

    ``checked`` contains the codes of the rules that ran; TL001 is added if it ran as well.
    """
    diagnostics = found
    if not settings.ignore_noqa:
        report_unused = settings.enabled(UNUSED_SUPPRESSION.code, source.path)
        diagnostics = suppress(source, diagnostics, checked, report_unused)
        if report_unused and checked:
            checked.add(UNUSED_SUPPRESSION.code)
    return sorted(
        (fitted(source, settings.with_fix_as_set(item)) for item in joined(source, diagnostics, found)),
        key=lambda item: (item.start, item.code, item.end),
    )


def texts_around(source: Source, settings: Settings) -> Mapping[str, str]:
    """What the diagnostics of a file depend on: by absolute path, the texts of files; empty if only on its own.

    Of configuration files those count that a check has read.
    """
    file = _project_file(source, settings)
    if file is None or not _needs_context(source, settings, file):
        return {}
    with _crashes(source, "the project"):
        return {**file.context.texts, **file.context.read_configs()}


def basis(source: Source, settings: Settings, found: Sequence[Diagnostic]) -> Basis:
    """What the diagnostics of a file depend on. It asks again what `check` has asked, whose results are kept."""
    from torchlint.project.context import shape_of
    from torchlint.project.roots import in_root
    from torchlint.project.state import Dependencies

    around = None
    if _concerned(source, settings) and not settings.isolated_files:
        file = _project_file(source, settings)
        around = Dependencies(frozenset(), frozenset(), "", frozenset())
        if file is not None:
            fixes = any(one.fix is not None for one in found)
            around = file.dependencies(with_context=_needs_context(source, settings, file), with_takers=fixes)
    return Basis(
        digest=digest_of(source),
        shape=shape_of(source.path, source.code, settings.src),
        concerned=screen(settings.screened_rules())(in_root(source.path), source.code),
        dependencies=around,
    )


def context_digest(source: Source, settings: Settings) -> str:
    """A short name of what a file is analysed with; empty if by itself."""
    file = _project_file(source, settings)
    with _crashes(source, "the project"):
        return file.context.digest if file is not None and file.is_in_program else ""


def _needs_context(source: Source, settings: Settings, file: ProjectFile) -> bool:
    """Whether a file is analysed with others: a rule may report something in it, by its own text."""
    rules = _concerned(source, settings)
    with _crashes(source, "the project"):
        return bool(rules) and file.is_in_program and bool(sketched(source, rules, alone=False))


def _concerned(source: Source, settings: Settings) -> Sequence[Rule]:
    """The enabled rules that may report something in a file; none in vendored code."""
    place = in_project(source.path)
    return [] if is_vendored(place) else concerned(source, place, settings.rules(source.path, source.text), settings)


def unreadable(path: str, error: SourceError, settings: Settings) -> list[Diagnostic]:
    """The diagnostics of a file whose content is not Python source text."""
    if not settings.enabled(INVALID_SYNTAX.code, path):
        return []
    return [_invalid_syntax(Source.from_text("", path), ParseError(str(error)))]


@dataclass
class _RuleResults:
    """The results of the rules on a file."""

    parsed: bool  #: whether the file was parsed for them
    diagnostics: list[Diagnostic] = field(default_factory=list)
    crashes: dict[str, InternalError] = field(default_factory=dict)  #: by code of the rule that raised


def _run_rules(
    source: Source, settings: Settings, rules: Sequence[Rule], is_cancelled: Callable[[], bool]
) -> _RuleResults:
    """The results of rules on a file, whose trees may be deep. Raises ParseError, InternalError and AbandonedError."""
    run = partial(_run_all, source, settings, rules, is_cancelled)
    try:
        try:
            results = run()
        except RecursionError:
            _forget_forests()
            results = with_large_stack(run)
        if results.crashes:
            _forget_forests()
        return results
    except (RecursionError, StackError):
        _forget_forests()
        raise ParseError(TOO_DEEP) from None
    except deadline.DeadlineError:
        _forget_forests()
        raise InternalError(
            f"{source.path}: skipped: its analysis takes longer than `timeout`, {settings.timeout:g} s of CPU time "
            f"and as much again for every {_CHARACTERS:,} characters"
        ) from None


def _forget_forests() -> None:
    """After an interrupted analysis: what is kept for other files may be incomplete."""
    from torchlint.model import forests

    forests.forget()


def _run_all(
    source: Source, settings: Settings, rules: Sequence[Rule], is_cancelled: Callable[[], bool]
) -> _RuleResults:
    """The same. Raises RecursionError too."""
    context = None
    known = code_of(source.text)
    with phase("project"), _crashes(source, "the project"):
        file = _project_file(source, settings)
        alone = file is None or not file.is_in_program
    if alone:
        rules = [rule for rule in rules if rule.may_apply(known)]
    results = _RuleResults(bool(rules))
    with _crashes(source, "the sketch"):
        rules = sketched(source, rules, alone=alone)
    if rules and file is not None and not alone:
        with phase("project"), _crashes(source, "the project"):
            context = file.context
            known = context.code
        rules = [rule for rule in rules if rule.may_apply(known)]
        results.parsed = bool(rules)
    if not rules:
        return results
    if is_cancelled():
        raise AbandonedError
    limit = settings.timeout * (1 + len(known) / _CHARACTERS) if settings.timeout else float("inf")
    with deadline.deadline(limit), _model(source, settings, rules, file, context) as module:
        for rule in rules:
            deadline.keep()
            if is_cancelled():
                raise AbandonedError
            try:
                results.diagnostics += _run_rule(rule, module, source)
            except InternalError as crash:
                results.crashes[rule.code] = crash
    return results


def _project_file(source: Source, settings: Settings) -> ProjectFile | None:
    """A file in its project, if other files count."""
    if settings.isolated_files:
        return None
    from torchlint.project.context import project_file  # not needed, so not imported, for most files

    with _crashes(source, "the project"):
        return project_file(source.path, source.code, settings.src, screen(settings.screened_rules()))


@contextmanager
def _model(
    source: Source, settings: Settings, rules: Sequence[Rule], file: ProjectFile | None, context: Context | None
) -> Iterator[Module]:
    """The model of a file, within its forest if there is one."""
    from torchlint.model import forests  # not needed, so not imported, for most files
    from torchlint.model.module import Module

    options = settings.options_of(rules)
    with phase("model"), _crashes(source, "the analysis"):
        forest = forests.of_context(context) if context is not None else None
        if forest is None or file is None or not forest.has(file.path):
            module = Module.parse(
                source.code,
                path=source.path,
                place=in_project(source.path),
                options=options,
                target_torch=settings.target_for(source.path, source.text),
                in_package=is_in_package(source.path),
            )
            forest = module.forest
        else:
            module = Module(forest, file.path, options, settings.target_for(source.path, source.text))
    if file is not None:
        module.is_taken, module.is_used, module.is_called = file.is_taken, file.is_used, file.is_called
        module.is_called_without_gradients = file.is_called_without_gradients
    try:
        yield module
    finally:
        module.release()
        forests.done(forest)


def _run_rule(rule: Rule, module: Module, source: Source) -> list[Diagnostic]:
    """What one rule finds in code that may run, each diagnostic with the rows on which a suppression counts."""
    from torchlint.model.training.purpose import Purposes
    from torchlint.model.training.unused import Unused

    purposes, unused = module.fact(Purposes), module.fact(Unused)
    fixes: dict[int, Fix | None] = {}  # many findings may share one fix of many edits
    with phase(f"{rule.code} {rule.name}"), _crashes(source, rule.code):
        found: dict[Diagnostic, None] = {}
        for item in rule.check(module):
            deadline.keep()
            is_own = module.begin <= item.start <= module.end
            if is_own and (rule.in_tests or not unused.has(item.start)) and not purposes.is_dead_at(item.start):
                found[item] = None
        moved = [within(item, module, fixes) for item in found]
    return [one if one.rows[0] else replace(one, rows=rows_of(source, one)) for one in moved]


@contextmanager
def _crashes(source: Source, what: str) -> Iterator[None]:
    """Raise InternalError for what is raised in the block, unless it ends the analysis for another reason."""
    try:
        yield
    except (ParseError, deadline.DeadlineError):
        raise
    except Exception as error:
        if isinstance(error, RecursionError) and not has_large_stack():
            raise  # a large stack may be enough
        place = traceback.extract_tb(error.__traceback__, limit=-1)[0]
        reason = " ".join(f"{type(error).__name__}: {_text_of(error)}".split())
        at = f"{place.filename}:{place.lineno}"
        raise InternalError(f"{source.path}: {what} crashed: {reason} ({at}); please report it") from error


def _text_of(error: Exception) -> str:
    try:
        return str(error)
    except Exception:  # it is about a node, and trees are made without what their text needs
        return "(it cannot be shown)"


def _invalid_syntax(source: Source, error: ParseError, what: str = "the file") -> Diagnostic:
    row = min(error.row, len(source.line_starts))  # Python may report a place behind the end
    line_start = source.line_starts[row - 1]
    start = min(line_start + error.column - 1, line_start + len(source.line(row)))
    return Diagnostic(
        code=INVALID_SYNTAX.code,
        name=INVALID_SYNTAX.name,
        message=f"{what} cannot be checked: {error.reason}",
        start=start,
        end=min(start + 1, len(source.text)),
        rows=(row, row),
    )
