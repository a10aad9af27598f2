"""What a sketch shows of a file."""

from __future__ import annotations

import ast
from textwrap import dedent

import pytest

from torchlint.rule.sketch import Sketch


def sketch_of(text: str) -> Sketch:
    """The sketch of a text without its indentation."""
    text = dedent(text)
    return Sketch(text, ast.parse(text), alone=True)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("a = 1\nb = f(1)", "b = f(1)"),
        ("x = [\n    1,\n    f(2),\n]", "x = [1, f(2)]"),
        ("if a:\n    pass\nelif f(b):\n    pass", "if f(b):\n    pass"),
        ("while f(\n    a\n):\n    pass", "while f(a):\n    pass"),
        ("@f(1)\nclass A:\n    pass", "@f(1)\nclass A:\n    pass"),
        ("try:\n    pass\nexcept f(a):\n    pass", "try:\n    pass\nexcept f(a):\n    pass"),
        ("match a:\n    case 1 if f(a):\n        pass", "match a:\n    case 1 if f(a):\n        pass"),
        ("def g():\n    return 1; f(3)", "f(3)"),
        ("a = 1\rb = f(1)\r\nc = 2", "b = f(1)"),
        ("größe = '🚀'\nf(größe)", "f(größe)"),
    ],
)
def test_the_statements_with_a_word_contain_the_one_that_has_it(text: str, expected: str) -> None:
    sketch = sketch_of(text)
    having = [
        statement
        for statement in sketch.containing("f(")
        if any(isinstance(call.func, ast.Name) and call.func.id == "f" for call in sketch.calls(statement))
    ]
    assert [ast.unparse(statement) for statement in having] == [expected]


def test_the_expressions_of_a_statement_are_not_those_of_the_statements_in_it() -> None:
    sketch = sketch_of("for x in f(1):\n    g(2)\nelse:\n    h(3)")
    assert [ast.unparse(call) for call in sketch.calls(sketch.statements[0])] == ["f(1)"]


def test_a_statement_knows_what_is_around_it_and_in_it() -> None:
    sketch = sketch_of(
        """
        class A:
            def run(self):
                try:
                    pass
                except ValueError:
                    call()
        """
    )
    statement = sketch.containing("call()")[0]
    function = sketch.function_of(statement)
    assert function is not None
    assert function.name == "run"
    assert [type(node).__name__ for node in sketch.around(statement)] == ["Try", "FunctionDef", "ClassDef"]
    assert statement in list(sketch.within(function))


def test_the_values_of_a_name_are_all_that_is_assigned_to_it() -> None:
    sketch = sketch_of("a = 1\na, b = f()\nif (a := 2):\n    c.a = 3\na: int = 4\nfor a in x:\n    pass")
    assert [ast.unparse(value) for value in sketch.values("a")] == ["1", "f()", "4", "2"]
    assert [ast.unparse(value) for value in sketch.values("a", sketch.statements[:1])] == ["1"]


def test_a_name_may_be_what_it_is_an_alias_of() -> None:
    sketch = sketch_of("from torch import zeros as make\nempty = th.zeros\nblank = empty\nx = make, empty, blank, ones")
    *names, other = [node for node in sketch.nodes(sketch.statements[-1]) if isinstance(node, ast.Name)][1:]
    assert all(sketch.may_be(name, {"zeros"}) for name in names)
    assert not sketch.may_be(other, {"zeros"})


def test_a_chain_of_names_is_followed_once_for_each_of_them() -> None:
    sketch = sketch_of("a0 = torch.zeros\n" + "".join(f"a{k + 1} = a{k}\n" for k in range(20_000)))
    assert sketch.may_be(ast.Name("a20000"), {"zeros"})
    assert not sketch.may_be(ast.Name("a10000"), {"ones"})
