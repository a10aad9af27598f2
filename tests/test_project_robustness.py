"""No input makes a project fail, or give two answers."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from project_files import GUARD, make

from torchlint.project.project import Project

WORDS = st.sampled_from(["a", "b", "pkg", "pkg.a", "pkg.b", "pkg.c.d", "utils", "torch", "os"])
NAMES = st.sampled_from(["f", "a", "b", "c", "*"])
LEVELS = st.sampled_from(["", "", ".", "..", "..."])
STATEMENTS = st.one_of(
    st.builds("import {}\n".format, WORDS),
    st.builds("import {} as f\n".format, WORDS),
    st.builds("from {}{} import {}\n".format, LEVELS, WORDS, NAMES),
    st.builds("from {} import {}\n".format, st.sampled_from([".", "..", "..."]), NAMES),
    st.builds("try:\n    from {} import f\nexcept ImportError:\n    f = {}\n".format, WORDS, NAMES),
    st.sampled_from(["def f(): ...\n", "f = a\n", "a = b.f\n", GUARD, "__all__ = ['f']\n", "sys.path.append('..')\n"]),
    st.sampled_from(["(", "'''", "\\\n", "\f\n", "f(\n", "\0"]),
)
PATHS = st.sampled_from(
    ["a.py", "b.py", "pkg/__init__.py", "pkg/a.py", "pkg/b.py", "pkg/c/d.py", "src/pkg/a.py", "t/a.py", "t/utils.py"]
)


@given(st.dictionaries(PATHS, st.lists(STATEMENTS, max_size=6).map("".join), min_size=1))
@settings(max_examples=100, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_any_imports_have_one_answer(tmp_path: Path, texts: dict[str, str]) -> None:
    def answers() -> list[object]:
        empty = Project.around(tmp_path, tmp_path)
        project = empty.with_text({tmp_path / name: text for name, text in texts.items()})
        found: list[object] = [project.entries()]
        for path in project.files:
            for item in project.imports(path):
                found.append(project.resolve(item.module, path))
            found += [project.importers(path), project.programs(path), sorted(project.reachable(path))]
        return found

    assert answers() == answers()


@pytest.mark.parametrize(
    "text",
    [
        "if a: pass\n" + "elif a: pass\n" * 3000,
        "x = " + "(" * 500,
        "x = " + "a." * 5000 + "b\n",
        "x = " + "-" * 5000 + "1\n",
        "import " + "a." * 5000 + "b\n",
        "from a import " + "b, " * 5000 + "c\n",
        "from a import (" * 5000,
        "'''" * 5001,
        "x = '" * 3000,
        "\\\n" * 5000,
        "import sys\nsys.path.append(" + "a(" * 150 + ")" * 151 + "\n",
        "import sys\na = a + '/'\nsys.path.append(a)\n",
    ],
    ids=lambda text: text[:20],
)
def test_hostile_texts_have_answers(tmp_path: Path, text: str) -> None:
    project = make(tmp_path, {"a.py": text, "b.py": "import a\n"})
    assert project.resolve("a", tmp_path / "b.py") == tmp_path / "a.py"
    project.imports(tmp_path / "a.py")
    assert project.importers(tmp_path / "a.py") == (tmp_path / "b.py",)
    assert project.programs(tmp_path / "a.py") == project.programs(tmp_path / "a.py")
