"""Python's syntax tree -> libcst's nodes: the tree that libcst makes of the same text, without white space."""

from __future__ import annotations

import sys

import libcst as cst
import pytest
from hypothesis import given
from hypothesis import strategies as st

from benchmarks.trees import differences
from torchlint.model.module import Module
from torchlint.model.syntax.conversion import converted
from torchlint.model.syntax.expressions import UnconvertibleError
from torchlint.model.syntax.pieces import parse_pieces

STATEMENTS = (
    "import os, torch.nn as nn, a.b.c\n",
    "from . import x\nfrom ..a.b import (c as d, e,)\nfrom f import *\n",
    "a = b = 1; c: int = 2; d: str; \\\ne += 0x1F\n",
    "x = 1;\n",
    "a, *b = c, (d, e), [f, *g], {h, *i}, {'j': 1, **k}, (), [], {}\n",
    "(a, b), c[0], d.e = f\n",
    "x[1], x[1, 2], x[(1, 2)], x[((1), 2)], x[(1), 2], x[((1)), (2)], x[(a).b, c], x[1:2, ::3, (a) : (b)], x[...]\n",
    "x[(1,)], x[1,], x[()], x[(\n    1,  # one )\n    2,\n)]\n",
    "f(), f(1, *a, b=2, **c), f(*a, 1, *b, k=3), f(x for x in y), f((x for x in y), 1), f(a)(b)[c].d(e)\n",
    "n = 1, 1_000, 0o17, 1.5, 1e-3, 2j, .5, 5., -1, +2, ~3, not 4\n",
    "s = 'a', r'\\d', b'x', 'it\\'s', \"\"\"a\"b\n\"c\"\"\", '''d'e\\'''', '', \"\", ''''''\n",
    "s = 'a' 'b' \"c\", ('d'  # why\n     'e'), b'f' b'g'\n",
    "s = f'{a}', f'{a!r:>{width}} {{b}}', 'x' f'{b}' 'y', f'''{\n    a\n}''', rf'\\d{x[\"k\"]}'\n",
    "s = f'{a.b}{{{c[0][1]}}}', rf'\\{d}', f'{e[\"k\"][1:2]:.2f}{f(g, h=1)!r}', f'{i, j}{ (lambda: k)() }{l=}{o:}'\n",
    "s = f'\\N{EN DASH}{a}\\n', F'{None}{True}{x if y else 0x1F}', f'''{a\n+ b}{c}'''\n",
    "s = f'{d!s:{e}}', f'{f(g[1:])}{(h)}'\n",
    "s = f'{é}{a + ü}', f'{not a} \\\n {*b, c}', f'{0:05}' f\"{d['e']}\" 'g' Rf'{h.i !s}'\n",
    "b = a and b and c or d or not e and (f or g)\n",
    "c = a < b <= c != d is e is not f in g not in h == i > j >= k\n",
    "o = a + b - c * d / e // f % g ** h @ i << j >> k & l | m ^ n\n",
    "a += 1; a -= 1; a *= 1; a /= 1; a //= 1; a %= 1; a **= 1; a @= 1; a <<= 1; a >>= 1; a &= 1; a |= 1; a ^= 1\n",
    "y = a if b else c if d else e\n",
    "l = lambda: 0, lambda a, *b, c=1, **d: a, lambda a, /, b, *, c: b\n",
    "c = [a for b, c in d if e if f for g in h], {a for a in b}, {a: b for a, b in c}, (a for a in b)\n",
    "t = (\n    1,  # one\n    2,\n), ( 3, 4 ), ((5, 6), 7), ( a for a in b if (c) ), ((8))\n",
    "if (n := f()) > 1: pass\n",
    "if a:\n  pass\nelif b:\n  if c: d; e\n  else: f\nelse:\n  if g:\n    pass\n  elif h: pass\n",
    "if a: \\\n  b\n",
    "while a: break\nelse:\n\tcontinue_ = 1\n",
    "for a, b in c:\n    continue\nelse:\n    pass\n",
    "for x in 1, 2: print(x)\n",
    "with a: pass\nwith a as b, c as (d, e), f(): pass\nwith (a as b, c): pass\nwith (yield_): pass\n",
    "try:\n    pass\nexcept: pass\n",
    "try:\n    a\nexcept B: pass\nexcept (C, D) as e:\n    raise\nelse:\n    f\nfinally: g\n",
    "raise A from b\n",
    "assert a, b\nassert(a if b else c)\n",
    "del a, b[0], c.d\ndel (e, f)\ndel g\n",
    "@a\n@b.c(1)\n# why\ndef f(a, b: int = 1, /, c=2, *args: int, d, e=3, **kw) -> int:\n    '''doc'''\n    return\n",
    "def f(a, *, b): return a\n",
    "def f():\n    global a; c = 1\n    def g():\n        nonlocal c\n        x = yield a\n    yield from b\n",
    "async def f():\n    async with a as b: pass\n    async for c in d: await e\n    return [f async for f in g]\n",
    "class A: pass\nclass B(C, *d, metaclass=E, **f):\n    @property\n    def g(self): return 1\n",
    "class C:\r\n\tx = 'é🔥'; y = f(x, 'ü', z)\r\n",
    "print('a', file=x); exec('b')\n",
    "\x0c\ndef f():\n    x = 1\n\x0c\n    y = 'é'\n",
    "# only a comment\n\n",
    "x = (a\n     # why\n     .b  # c\n     .d())\n",
)


@given(st.lists(st.sampled_from(STATEMENTS), max_size=6))
def test_the_tree_and_the_offsets_are_those_of_libcst(statements: list[str]) -> None:
    assert list(differences("".join(statements))) == []


@pytest.mark.parametrize("statement", STATEMENTS)
def test_each_statement_is_converted(statement: str) -> None:
    assert list(differences(statement)) == []
    assert list(differences(statement.rstrip())) == []
    assert list(differences(statement.replace("\r\n", "\n").replace("\n", "\r\n"))) == []


def test_a_difference_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    tree = converted("a = b\n")
    monkeypatch.setattr("benchmarks.trees.converted", lambda text, spans: tree)
    assert list(differences("a = c\n")) == ["Name.value: 'b' for 'c'"]
    assert list(differences("a = 1\n")) == ["structure: Name is Integer"]


def test_nodes_are_told_apart_by_identity() -> None:
    first, second = converted("a = 1\n").body[0], cst.parse_module("a = 1\n").body[0]
    assert len({first, second, first}) == 2
    assert {first: 1}.get(second) is None
    assert first == first  # noqa: PLR0124 - nodes compare by identity
    assert first != second
    assert cst.Name("a") != cst.Name("a")


def test_white_space_is_not_there() -> None:
    call = converted("f ( a , b )\n").body[0]
    with pytest.raises(AttributeError):
        call.leading_lines  # noqa: B018


@pytest.mark.parametrize(
    "text",
    [
        "match a:\n    case 1: pass\n",
        "ünder = 1\n",
        "del a,\n",
        pytest.param("type A = int\n", marks=pytest.mark.skipif(sys.version_info < (3, 12), reason="Python 3.12")),
    ],
)
def test_libcst_parses_what_is_not_converted(text: str) -> None:
    with pytest.raises(UnconvertibleError):
        converted(text)
    (piece,) = parse_pieces(text)
    assert piece.parsed.by_libcst
    assert piece.tree.code == text


def test_a_node_is_found_with_its_white_space() -> None:
    module = Module.parse("import os\n\n# why\nx = f ( (a) , b )\n")
    call = next(node for node in module.tree.calls)
    assert cst.Module([]).code_for_node(module.full(call)) == "f ( (a) , b )"
    assert module.is_parenthesized(call.args[0].value)
    assert not module.is_parenthesized(call.args[1].value)
    assert module.code(call) == "f ( (a) , b )"
    assert module.code(call.args[0].value) == "a"


def test_white_space_in_a_method_is_that_of_the_class() -> None:
    method = '    @g\n    def f(self):\n        # why\n        return h ( (a) , """b\n""")\n'
    module = Module.parse(f"class A:\n    x = 1\n\n    # a method\n{method}\n\nclass B:\n{method}")
    for call, statement in zip(module.tree.calls, module.tree.functions, strict=True):
        assert cst.Module([]).code_for_node(module.full(call)) == 'h ( (a) , """b\n""")'
        assert module.is_parenthesized(call.args[0].value)
        assert not module.is_parenthesized(call.args[1].value)
        row = module.tree.parent(module.tree.statement_of(call))
        assert isinstance(row, cst.SimpleStatementLine)
        assert [line.comment.value for line in module.full(row).leading_lines if line.comment] == ["# why"]
        comments = [line.comment.value for line in module.full(statement).leading_lines if line.comment]
        assert comments == (["# a method"] if statement is module.tree.functions[0] else [])


@pytest.mark.parametrize("name", ["AsName", "Arg", "Element", "Index", "SimpleStatementLine", "IndentedBlock", "Param"])
def test_nodes_that_python_does_not_have_are_found_too(name: str) -> None:
    text = "def f(a, b=1):\n    with open(x) as y:  # why\n        y[0], [z] = g(1)\n"
    module = Module.parse(text)
    exact = cst.metadata.MetadataWrapper(cst.parse_module(text), unsafe_skip_copy=True)
    spans = exact.resolve(cst.metadata.ByteSpanPositionProvider)
    expected = {(s.start, s.start + s.length) for node, s in spans.items() if type(node).__name__ == name}
    found = {module.span(node) for node in module.tree.nodes if type(node).__name__ == name}
    assert found == expected
