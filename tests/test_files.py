"""Which files are checked: endings, exclusions, .gitignore, links, order."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from torchlint.settings.files import Found, find_files
from torchlint.settings.resolver import Resolver


def make(root: Path, *names: str) -> None:
    """Create empty files."""
    for name in names:
        path = root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.touch()


def find(root: Path, *paths: str) -> Found:
    """What the walk finds, with paths relative to ``root``."""
    return find_files([str(root / path) if path else str(root) for path in paths or ("",)], Resolver().for_folder)


def names(root: Path, *paths: str) -> list[str]:
    """The files found, relative to ``root``."""
    return [os.path.relpath(file.path, root).replace(os.sep, "/") for file in find(root, *paths).files]


def test_folders_give_their_python_files_in_order(tmp_path: Path) -> None:
    make(tmp_path, "b.py", "a/z.py", "a.py", "a/b/c.py", "a.pyi", "a.txt", "py", "n.ipynb", "n.ipynb.bak")
    assert names(tmp_path) == ["a.py", "a/b/c.py", "a/z.py", "b.py", "n.ipynb"]


def test_the_working_directory_needs_no_prefix(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    make(tmp_path, "a/b.py", "c.py")
    monkeypatch.chdir(tmp_path)
    assert [file.path for file in find_files(["."], Resolver().for_folder).files] == [os.path.join("a", "b.py"), "c.py"]


def test_a_named_file_is_checked_whatever_it_is_called(tmp_path: Path) -> None:
    make(tmp_path, "script", "venv/a.py")
    found = find(tmp_path, "script", "venv/a.py")
    assert [file.named for file in found.files] == [True, True]
    assert names(tmp_path, "venv") == ["venv/a.py"]


def test_no_file_is_checked_twice(tmp_path: Path) -> None:
    make(tmp_path, "a/b.py")
    assert names(tmp_path, "a", "", "a/b.py", "a/../a/b.py") == ["a/b.py"]


def test_missing_paths_are_told_and_the_rest_is_found(tmp_path: Path) -> None:
    make(tmp_path, "a.py", "n.ipynb")
    found = find(tmp_path, "nowhere", "a.py", "n.ipynb")
    assert [os.path.basename(file.path) for file in found.files] == ["a.py", "n.ipynb"]
    assert [str(error).partition(": ")[2] for error in found.errors] == ["no such file or folder"]


def test_what_jupyter_saves_beside_a_notebook_is_left_out(tmp_path: Path) -> None:
    make(tmp_path, ".ipynb_checkpoints/n-checkpoint.ipynb", "n.ipynb")
    assert names(tmp_path) == ["n.ipynb"]


def test_folders_that_are_not_the_projects_own_are_left_out(tmp_path: Path) -> None:
    make(tmp_path, ".venv/a.py", "node_modules/x/a.py", "dist/a.py", "src/site-packages/a.py", "src/distance/a.py")
    assert names(tmp_path) == ["src/distance/a.py"]


def test_excluded_patterns(tmp_path: Path) -> None:
    (tmp_path / "torchlint.toml").write_text('extend-exclude = ["src/old", "*_pb2.py", "gen/**/x.py"]\n')
    make(tmp_path, "src/old/a/b.py", "old/a.py", "a_pb2.py", "src/a_pb2.py", "gen/x.py", "gen/a/b/x.py", "gen/y.py")
    assert names(tmp_path) == ["gen/y.py", "old/a.py"]
    assert names(tmp_path, "a_pb2.py") == ["a_pb2.py"]


def test_force_exclude_holds_for_named_files(tmp_path: Path) -> None:
    (tmp_path / "torchlint.toml").write_text('extend-exclude = ["src/old"]\nforce-exclude = true\n')
    make(tmp_path, "src/old/a/b.py", "venv/x.py", "src/c.py")
    assert names(tmp_path, "src/old/a/b.py", "src/old", "venv/x.py", "src/c.py") == ["src/c.py"]


def test_a_project_may_itself_live_in_an_excluded_folder(tmp_path: Path) -> None:
    root = tmp_path / "dist" / "project"
    make(root, "src/a.py")
    (root / "torchlint.toml").write_text("force-exclude = true\n")
    assert names(root, "src/a.py", "") == ["src/a.py"]


def test_what_git_ignores_is_left_out(tmp_path: Path) -> None:
    make(
        tmp_path, ".git/HEAD", "build/a.py", "keep.py", "gen.py", "sub/gen.py", "sub/own.py", "sub/build/a.py", "no.py"
    )
    (tmp_path / ".gitignore").write_text("build/\ngen.py\n# a comment\n")
    (tmp_path / "sub" / ".gitignore").write_text("!gen.py\n/own.py\n")
    (tmp_path / ".git" / "info").mkdir()
    (tmp_path / ".git" / "info" / "exclude").write_text("no.py\n")
    assert names(tmp_path) == ["keep.py", "sub/gen.py"]
    assert names(tmp_path, "sub") == ["sub/gen.py"]
    assert names(tmp_path, "gen.py") == ["gen.py"], "a named file is checked"
    assert names(tmp_path, "build") == ["build/a.py"], "a named folder is checked"
    (tmp_path / "torchlint.toml").write_text("respect-gitignore = false\n")
    assert len(names(tmp_path)) == 7


def test_a_gitignore_above_the_repository_does_not_count(tmp_path: Path) -> None:
    (tmp_path / ".gitignore").write_text("*\n")
    make(tmp_path, "repository/.git/HEAD", "repository/a.py", "loose/a.py")
    assert names(tmp_path, "repository", "loose") == ["loose/a.py", "repository/a.py"]


def test_links(tmp_path: Path) -> None:
    make(tmp_path, "a/b.py")
    (tmp_path / "a" / "loop").symlink_to(tmp_path, target_is_directory=True)
    (tmp_path / "a" / "dangling.py").symlink_to(tmp_path / "nowhere.py")
    (tmp_path / "a" / "self.py").symlink_to(tmp_path / "a" / "self.py")
    (tmp_path / "c.py").symlink_to(tmp_path / "a" / "b.py")
    (tmp_path / "folder.py").symlink_to(tmp_path / "a", target_is_directory=True)
    found = names(tmp_path)
    assert len(found) == 1 and found[0] in ("a/b.py", "c.py")
    assert names(tmp_path, "a/loop/a") == ["a/loop/a/b.py"]


def test_each_folder_has_its_own_settings(tmp_path: Path) -> None:
    make(tmp_path, "a.py", "sub/b.py", "sub/c.py", "broken/d.py", "broken/inner/e.py")
    (tmp_path / "sub" / "torchlint.toml").write_text('select = ["TL001"]\nexclude = ["c.py"]\n')
    (tmp_path / "broken" / "torchlint.toml").write_text("fix = 1\n")
    found = find(tmp_path)
    assert [os.path.basename(file.path) for file in found.files] == ["a.py", "b.py"]
    assert found.files[1].settings.codes == {"TL001", "TL002"}
    assert len(found.errors) == 1 and "`fix` must be true or false" in str(found.errors[0])
