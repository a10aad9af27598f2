"""Where the names of a project are defined: they are followed through imports and assignments."""

from __future__ import annotations

from pathlib import Path

import pytest
from project_files import defined, make


@pytest.mark.parametrize(
    ("files", "name", "expected"),
    [
        ({"a.py": "from b import f\n", "b.py": "x = 1\n@deco\ndef f(): ...\n"}, "f", [("b.py", 2, "function")]),
        ({"a.py": "from b import C as D\n", "b.py": "class C: ...\n"}, "D", [("b.py", 1, "class")]),
        ({"a.py": "import b\n", "b.py": "def f(): ...\n"}, "b.f", [("b.py", 1, "function")]),
        ({"a.py": "import p.b as c\n", "p/b.py": "x = 1\n"}, "c.x", [("p/b.py", 1, "assignment")]),
        ({"a.py": "import p.b\n", "p/b.py": "x = 1\n"}, "p.b.x", [("p/b.py", 1, "assignment")]),
        ({"a.py": "from p import b\n", "p/b.py": ""}, "b", [("p/b.py", 1, "module")]),
        (
            {"a.py": "from p import f\n", "p/__init__.py": "from .b import f\n", "p/b.py": "def f(): ...\n"},
            "f",
            [("p/b.py", 1, "function")],
        ),
        ({"a.py": "from b import *\n", "b.py": "def f(): ...\n"}, "f", [("b.py", 1, "function")]),
        ({"a.py": "from b import *\n", "b.py": "__all__ = ['g']\ndef f(): ...\n"}, "f", []),
        ({"a.py": "from b import *\n", "b.py": "def _f(): ...\n"}, "_f", []),
        (
            {"a.py": "from b import *\n", "b.py": "__all__ = ['g']\n__all__ += ['_f']\ndef _f(): ...\n"},
            "_f",
            [("b.py", 3, "function")],
        ),
        ({"a.py": "def f(): ...\ng = f\n"}, "g", [("a.py", 1, "function")]),
        ({"a.py": "import b\ng = b.f\n", "b.py": "def f(): ...\n"}, "g", [("b.py", 1, "function")]),
        ({"a.py": "def f(): ...\nf = wrap(f)\n"}, "f", [("a.py", 2, "assignment")]),
        (
            {"a.py": "try:\n    from b import f\nexcept ImportError:\n    def f(): ...\n", "b.py": "f = 1\n"},
            "f",
            [("b.py", 1, "assignment"), ("a.py", 1, "function")],
        ),
        (
            {"a.py": "try:\n    from apex import f\nexcept ImportError:\n    from b import f\n", "b.py": "f = 1\n"},
            "f",
            [("a.py", 1, "import"), ("b.py", 1, "assignment")],
        ),
        (
            {
                "a.py": "if new:\n    from b import f\nelse:\n    from c import f\n",
                "b.py": "f = 1\n",
                "c.py": "f = 2\n",
            },
            "f",
            [("b.py", 1, "assignment"), ("c.py", 1, "assignment")],
        ),
        ({"a.py": "from torch import nn\n"}, "nn", []),
        ({"a.py": "from b import f\n", "b.py": "from a import f\n"}, "f", []),
        ({"a.py": "from b import *\n", "b.py": "from a import *\ndef f(): ...\n"}, "f", [("b.py", 2, "function")]),
        (
            {"a.py": "if TYPE_CHECKING:\n    from b import T\nT = 1\n", "b.py": "class T: ...\n"},
            "T",
            [("a.py", 3, "assignment")],
        ),
        ({"a.py": "if TYPE_CHECKING:\n    from b import T\n", "b.py": "class T: ...\n"}, "T", [("b.py", 1, "class")]),
        ({"a.py": "a = 1; b = 2\n"}, "b", [("a.py", 1, "assignment")]),
        ({"a.py": "(x, [y, *z]) = v\n"}, "z", [("a.py", 1, "assignment")]),
        ({"a.py": "a = b\nb = a\n"}, "a", [("a.py", 2, "assignment")]),
        ({"a.py": "x = \n"}, "x", []),
    ],
)
def test_definitions_are_followed_to_their_statement(
    tmp_path: Path, files: dict[str, str], name: str, expected: list[tuple[str, int, str]]
) -> None:
    assert defined(make(tmp_path, files), "a.py", name) == expected


def test_long_chains_of_names_end(tmp_path: Path) -> None:
    files = {f"m{i}.py": f"from m{i + 1} import f\n" for i in range(300)}
    project = make(tmp_path, {**files, "m300.py": "def f(): ...\n"})
    assert defined(project, "m295.py", "f") == [("m300.py", 1, "function")]
    assert defined(project, "m0.py", "f") == []
