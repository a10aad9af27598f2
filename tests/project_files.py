"""Projects of little files for the tests, and what they know, as text relative to their root."""

from __future__ import annotations

from pathlib import Path

from torchlint.project.project import Project

GUARD = "if __name__ == '__main__':\n    main()\n"


def make(root: Path, files: dict[str, str]) -> Project:
    """A project with these files."""
    for name, text in files.items():
        path = root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, encoding="utf-8")
    return Project.around(root, root)


def names(project: Project, paths: tuple[Path, ...] | frozenset[Path]) -> list[str]:
    """Paths relative to the project's root."""
    return sorted(path.relative_to(project.root).as_posix() for path in paths)


def resolved(project: Project, module: str, importer: str) -> str | None:
    """What a module is for an importer, relative to the root."""
    found = project.resolve(module, project.root / importer)
    return found.relative_to(project.root).as_posix() if found is not None else None
