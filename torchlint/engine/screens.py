"""Which rules may report something in a file, by its text alone: by its words, then by its syntax tree."""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Sequence
from functools import cache, lru_cache

from torchlint.cache.folder import digest
from torchlint.rule.rule import Default, Rule
from torchlint.settings.settings import Settings
from torchlint.source.lexemes import code_of
from torchlint.source.parsing import ParseError, python_tree
from torchlint.source.paths import is_vendored
from torchlint.source.source import Source
from torchlint.source.testing import is_test
from torchlint.source.timing import phase

#: A line that imports torch, or a package with torch in its name. A docstring may contain one, too.
_IMPORT_OF_TORCH = re.compile(r"^[ \t]*(?:from|import)[ \t][^\r\n#]*torch", re.MULTILINE)

#: ... and one that imports another framework, whose losses and optimizers have methods of the same names.
_IMPORT_OF_OTHERS = re.compile(
    r"^[ \t]*(?:from|import)[ \t]+(?:chainer|mxnet|paddle|tensorflow|jittor|oneflow|mindspore|tinygrad)\b", re.MULTILINE
)


def imports_torch(text: str) -> bool:
    """Whether a file may import torch: its syntax is checked even if no rule may report anything in it."""
    return "torch" in text and _IMPORT_OF_TORCH.search(text) is not None


def concerned(source: Source, place: str, enabled: Collection[Rule], settings: Settings) -> list[Rule]:
    """The enabled rules that may report something in a file at a place of its project."""
    return [rule for rule in _screened(source.text, place, settings.screened_rules()) if rule in enabled]


def _screened(text: str, place: str, rules: tuple[Rule, ...]) -> Sequence[Rule]:
    """Those of some rules that may report something in the file at a place of its project, with this text.

    The answers are kept: a project asks about the files that a run checks later.
    """
    if len(_answers_of_screens) > _MAX_ANSWERS:
        _answers_of_screens.clear()
    key = (digest(text), rules)
    found = _answers_of_screens.get(key)
    if found is None:
        code = code_of(text)
        is_of_others = _IMPORT_OF_OTHERS.search(code) is not None and not imports_torch(code)
        found = [] if is_of_others else [rule for rule in rules if rule.may_concern(code)]
        _answers_of_screens[key] = found
    if not all(rule.in_tests for rule in found) and is_test(place, text):
        return [rule for rule in found if rule.in_tests]
    return found


#: By the digest of a text and the rules that were asked for, those that may report something in the text.
_answers_of_screens: dict[tuple[str, tuple[Rule, ...]], list[Rule]] = {}
_MAX_ANSWERS = 50_000


def forget() -> None:
    """Drop the answers that are kept."""
    _answers_of_screens.clear()
    _sketched.cache_clear()


def sketched(source: Source, rules: Sequence[Rule], *, alone: bool) -> Sequence[Rule]:
    """Those of some rules that may report something in a file, by its syntax tree; all if that does not tell.

    ``alone`` tells that it is analysed without any other file.
    """
    return _sketched(source.code, tuple(rules), alone) if rules else ()


@lru_cache(maxsize=2)  # asked by a check, and again for what its result depends on
def _sketched(text: str, rules: tuple[Rule, ...], alone: bool) -> Sequence[Rule]:
    from torchlint.rule.sketch import Sketch, SketchError  # not needed, so not imported, for most files

    with phase("sketch"):
        try:
            sketch = Sketch(text, python_tree(text), alone=alone)
            return [rule for rule in rules if rule.may_find(sketch)]
        except (ParseError, SketchError, RecursionError):
            return rules


@cache
def screen(rules: tuple[Rule, ...]) -> Callable[[str, str], bool]:
    """Whether a rule that is on by default may report something in the file at a place of its project, with a text.

    Such files are analysed together. What is selected does not matter, so that a rule finds the same with and without
    other rules. `rules` are asked together, and the answers kept.
    """

    def concerns(place: str, text: str) -> bool:
        if is_vendored(place):
            return False
        return any(rule.default is not Default.OPT_IN for rule in _screened(text, place, rules))

    return concerns
