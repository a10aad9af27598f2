"""Whether the trees that torchlint analyses are those that libcst makes: ``python -m benchmarks.trees FOLDER...``.

torchlint makes libcst's trees from Python's own syntax trees, without white space. Each top-level statement of the
files is parsed both ways, and each difference in a node, a name, a literal or an offset is listed. Both ways are timed.
"""

from __future__ import annotations

import argparse
import dataclasses
import sys
import time
from collections import Counter
from collections.abc import Iterator
from functools import cache
from pathlib import Path

import libcst as cst

from torchlint.model.syntax.conversion import converted
from torchlint.model.syntax.expressions import UnconvertibleError
from torchlint.model.syntax.nodes import pairs
from torchlint.model.syntax.places import Places
from torchlint.source import reading
from torchlint.source.parsing import ParseError, parse_texts, piece_starts, python_tree
from torchlint.source.source import Source, SourceError

#: Fields of white space, punctuation and comments, beside those with "whitespace" or "lines" in their names.
_LEFT_OUT = frozenset(
    "lpar rpar lbracket rbracket lbrace rbrace comma commas semicolon equal dot colon first_colon second_colon "
    "header footer indent default_indent encoding has_trailing_newline".split()
)


def differences(text: str) -> Iterator[str]:
    """How the converted tree of a text differs from libcst's. Raises UnconvertibleError and ParseError."""
    spans: dict[int, tuple[int, int]] = {}
    tree = converted(text, spans)
    exact = parse_texts([text])[0]
    places = Places(exact, text)
    if tree.default_indent != exact.default_indent or tree.default_newline != exact.default_newline:
        yield f"indentation {tree.default_indent!r} for {exact.default_indent!r}, or the newline"
    try:
        found = list(pairs(tree, exact))
    except ValueError as error:
        yield f"structure: {error}"
        return
    for mine, theirs in found:
        for field in _fields(type(mine)):
            left, right = getattr(mine, field, "unset"), getattr(theirs, field)
            if not isinstance(right, cst.CSTNode) and not isinstance(right, tuple) and left != right:
                yield f"{type(mine).__name__}.{field}: {left!r} for {right!r}"
            elif type(left) is not type(right) or (isinstance(left, tuple) and len(left) != len(right)):
                yield f"{type(mine).__name__}.{field}: {type(left).__name__} for {type(right).__name__}"
        if id(mine) in spans and spans[id(mine)] != places.get(theirs):
            yield f"{type(mine).__name__} at {spans[id(mine)]} for {places.get(theirs)}"


@cache
def _fields(kind: type[cst.CSTNode]) -> tuple[str, ...]:
    if issubclass(kind, (cst.BaseBinaryOp, cst.BaseUnaryOp, cst.BaseCompOp, cst.BaseBooleanOp, cst.BaseAugOp)):
        return ()
    if issubclass(kind, (cst.Asynchronous, cst.ParamStar, cst.ParamSlash, cst.ImportStar, cst.Dot)):
        return ()
    names = (field.name for field in dataclasses.fields(kind))
    return tuple(name for name in names if name not in _LEFT_OUT and "whitespace" not in name and "lines" not in name)


def _pieces(source: Source) -> Iterator[str]:
    starts = piece_starts(source.code, python_tree(source.code))
    for start, end in zip(starts, [*starts[1:], len(source.code)], strict=True):
        yield source.code[start:end]


def main() -> int:
    """Run the command: 0 if there is no difference."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folders", nargs="+", type=Path, metavar="FOLDER")
    lines, different, left_out = 0, 0, Counter[str]()
    seconds = {"converted": 0.0, "libcst": 0.0}
    for path in sorted(path for folder in parser.parse_args().folders for path in folder.rglob("*.py")):
        try:
            source = reading.read(str(path))
            pieces = list(_pieces(source))
        except (OSError, SourceError, ParseError):
            continue
        for piece in pieces:
            try:
                begin = time.process_time()
                converted(piece)
                middle = time.process_time()
                parse_texts([piece])
                seconds["converted"] += middle - begin
                seconds["libcst"] += time.process_time() - middle
                found = list(differences(piece))
            except UnconvertibleError as error:
                left_out[str(error)[:40]] += piece.count("\n")
                continue
            except ParseError as error:
                left_out[f"libcst: {error}"] += piece.count("\n")
                continue
            lines += piece.count("\n")
            different += bool(found)
            for difference in found[:3]:
                print(f"{path}: {difference}")
    print(f"{lines:,} lines: {different} pieces differ; left to libcst: {dict(left_out.most_common())}")
    print(f"{seconds['libcst'] / (seconds['converted'] or 1):.1f} times the speed of libcst's parser")
    return 1 if different else 0


if __name__ == "__main__":
    sys.exit(main())
