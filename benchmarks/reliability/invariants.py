"""What must hold of every file, whatever is in it: checked, and fixed with and without unsafe fixes."""

from __future__ import annotations

import ast
import io
import re
import time
import tokenize
import warnings
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field
from functools import cache

from pyflakes.checker import Checker
from pyflakes.messages import Message

import torchlint
from torchlint.engine.checker import InternalError, check
from torchlint.engine.fixer import Fixed, fix
from torchlint.findings.diagnostic import Diagnostic
from torchlint.settings.settings import Settings
from torchlint.source import reading
from torchlint.source.parsing import compiles
from torchlint.source.source import Source, SourceError

#: Seconds that a check may take, and characters that give it one second more.
LIMIT, CHARACTERS = 10.0, 20_000
_NEWLINES = re.compile(r"\r\n|\r|\n")
#: Messages of pyflakes about a name that is bound and not used.
_BOUND = ("UnusedImport", "UnusedVariable", "RedefinedWhileUnused", "ImportShadowedByLoopVar")
#: A form feed that begins a row. Within an expression it is a blank like any other.
_PAGE = re.compile(r"(?m)(?:^|(?<=\r))[ \t]*\f")


@cache
def _settings(unsafe: bool) -> Settings:
    return torchlint.load_settings(overrides={"select": ["ALL"], "unsafe-fixes": unsafe})


@dataclass
class Outcome:
    """What came of one input."""

    name: str
    findings: int = 0
    fixes: int = 0  #: made with unsafe ones
    seconds: float = 0.0  #: of a check
    violations: list[str] = field(default_factory=list)  #: what does not hold
    content: bytes = b""


def examined(data: bytes, path: str, name: str) -> Outcome:
    """What comes of a file with this content. What raises is a violation, but for what is no Python source text."""
    outcome = Outcome(name, content=data)
    try:
        source = reading.from_bytes(data, path)
    except SourceError:
        return outcome
    found: list[str] = []
    begin = time.perf_counter()
    if source.to_bytes() != data:
        found.append("the bytes do not come back")
    try:
        diagnostics = check(source, _settings(False), on_crash=lambda crash: found.append(str(crash)))
        outcome.seconds = time.perf_counter() - begin
        outcome.findings = len(diagnostics)
        found += _misplaced(source, diagnostics)
        for unsafe in (False, True):
            kind = "unsafe" if unsafe else "safe"
            fixed = _fix(source, unsafe, found)
            outcome.fixes = max(outcome.fixes, len(fixed.applied))
            found += [f"{kind} fixes: {reason}" for reason in _broken(source, fixed, unsafe)]
    except Exception as error:
        found.append(f"{type(error).__name__}: {error}")
    if outcome.seconds > LIMIT + len(source.text) / CHARACTERS:
        found.append(f"took {outcome.seconds:.0f} s")
    outcome.violations = list(dict.fromkeys(found))
    return outcome


def _fix(source: Source, unsafe: bool, found: list[str]) -> Fixed:
    def on_crash(crash: InternalError) -> None:
        found.append(str(crash))

    return fix(source, _settings(unsafe), on_crash=on_crash)


def _misplaced(source: Source, diagnostics: list[Diagnostic]) -> Iterator[str]:
    for one in diagnostics:
        if not 0 <= one.start <= one.end <= len(source.text):
            yield f"{one.code} is at {one.start}-{one.end} of a text of {len(source.text)} characters"
        source.position(one.start)
        for note in one.notes:
            if not note.message.strip():
                yield f"{one.code} has an empty note"


def _broken(before: Source, fixed: Fixed, unsafe: bool) -> Iterator[str]:
    """What the fixes did that no fix may do."""
    after = fixed.source
    yield from fixed.errors
    if after.text == before.text:
        return
    for one, two in zip(before.units, after.units, strict=True):
        if compiles(one) and not compiles(two):
            yield "the result does not compile"
            return
    again: list[str] = []
    second = _fix(after, unsafe, again)
    yield from again
    if second.source.text != after.text:
        yield f"a second run fixes more: {sorted({one.code for one in second.applied})}"
    content = after.to_bytes()
    if reading.from_bytes(content, before.path).text != after.text:
        yield "Python reads the written file otherwise"
    new = set(_NEWLINES.findall(after.text)) - set(_NEWLINES.findall(before.text) or ["\n"])
    if new:
        yield f"new kinds of newlines: {sorted(new)}"
    if len(_PAGE.findall(before.text)) != len(_PAGE.findall(after.text)):
        yield "a form feed is gone or new"
    if not before.cells:
        lost = _comments(before.text) - _comments(after.text)
        if lost:
            yield f"a comment is gone: {next(iter(lost))}"
        said = _new_messages(before.text, after.text)
        if said:
            yield f"pyflakes says: {'; '.join(sorted(said))}"


def _comments(text: str) -> Counter[str]:
    """The comments of a text but for suppressions, which TL001 removes; none if Python cannot tokenize it."""
    try:
        tokens = list(tokenize.generate_tokens(io.StringIO(_NEWLINES.sub("\n", text)).readline))
    except (tokenize.TokenError, SyntaxError):
        return Counter()
    comments = (token.string.rstrip() for token in tokens if token.type == tokenize.COMMENT)
    return Counter(comment for comment in comments if "noqa" not in comment.lower())


def _new_messages(before: str, after: str) -> list[str]:
    """What pyflakes says of a text after fixes that is their doing.

    A fix may repeat an expression of the program, with its undefined names. What a fix removes may be the only use of a
    name that the program binds. An import that the program makes under a condition may be needed above it as well.
    """
    known = _pyflakes(before)
    words = set(re.findall(r"\w+", before))
    new = []
    for message in _pyflakes(after) - known:
        kind, _, name = message.partition(" ")
        is_repeated = kind == "UndefinedName" and message in known
        is_left = kind in _BOUND and words.issuperset(re.findall(r"\w+", name))
        if not (is_repeated or is_left):
            new.append(message)
    return new


def _pyflakes(text: str) -> Counter[str]:
    """What pyflakes says of a text, without the rows; nothing of a text that it cannot parse."""
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            messages = Checker(ast.parse(text)).messages
    except (SyntaxError, ValueError, RecursionError):
        return Counter()
    return Counter(_said(one) for one in messages)


def _said(message: Message) -> str:
    """A message without its rows."""
    return " ".join(
        [type(message).__name__, *(str(item) for item in message.message_args if not isinstance(item, int))]
    )
