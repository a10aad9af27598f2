"""Paths -> the files to check: folders are walked past what is excluded or ignored by git."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from torchlint.settings.globs import matches, matches_parents
from torchlint.settings.layers import SettingsError
from torchlint.settings.settings import Settings

if TYPE_CHECKING:
    from pathspec import GitIgnoreSpec


@dataclass(frozen=True)
class File:
    """A file to check, under the settings of its folder."""

    path: str
    settings: Settings
    named: bool  #: on the command line, not just found in a folder


@dataclass
class Found:
    """The result of a walk: files in order, and the errors: of paths that could not be read, and of settings."""

    files: list[File] = field(default_factory=list)
    errors: list[str | SettingsError] = field(default_factory=list)


def find_files(paths: Iterable[str], settings_for: Callable[[str], Settings]) -> Found:
    """The files at and below ``paths``, sorted, each once. ``settings_for`` gives the settings of a folder.

    A file that is named is checked whatever its ending, and even if it is excluded, unless ``force-exclude`` is set.
    In folders only ``*.py`` and ``*.ipynb`` are taken.
    """
    found = Found()
    named: dict[str, File] = {}
    walked: dict[str, File] = {}
    broken: dict[str, SettingsError] = {}  # by its text, which other folders share

    def settings_of(folder: str) -> Settings | None:
        try:
            return settings_for(folder)
        except SettingsError as error:
            broken.update({str(one): one for one in (error, *error.others)})
            return None

    for path in paths:
        if os.path.isdir(path):
            for real, file in _walk(path, settings_of, found.errors):
                walked.setdefault(real, file)
        elif not os.path.exists(path):
            found.errors.append(f"{path}: no such file or folder")
        else:
            settings = settings_of(os.path.dirname(path) or ".")
            if settings is not None and not (settings.force_exclude and is_excluded(path, settings)):
                named.setdefault(os.path.realpath(path), File(path, settings, named=True))
    found.files = sorted({**walked, **named}.values(), key=lambda file: file.path)
    found.errors += broken.values()
    return found


def is_excluded(path: str, settings: Settings) -> bool:
    """Whether the settings exclude a path, or a folder that contains it."""
    absolute = os.path.abspath(path)
    return matches_parents(settings.exclude, absolute)


def _walk(
    root: str, settings_of: Callable[[str], Settings | None], errors: list[str | SettingsError]
) -> Iterator[tuple[str, File]]:
    """The Python files and notebooks below a folder, each with its real path. Links to folders are not followed."""
    settings = settings_of(root)
    if settings is None or (settings.force_exclude and is_excluded(root, settings)):
        return
    top = os.path.abspath(root)
    ignores = ignores_above(top) if settings.respect_gitignore else ()
    folders = [(root, top, os.path.realpath(root), ignores)]
    while folders:
        folder, absolute, real, ignores = folders.pop()
        settings = settings_of(folder)
        if settings is None:
            continue
        try:
            with os.scandir(folder) as scan:
                entries = list(scan)
        except OSError as error:
            errors.append(f"{folder}: cannot be read: {error.strerror}")
            continue
        if settings.respect_gitignore and any(entry.name == ".gitignore" for entry in entries):
            ignores = (*ignores, *read_ignore(absolute, os.path.join(absolute, ".gitignore")))
        for entry in entries:
            is_folder = entry.is_dir(follow_symlinks=False)
            if not is_folder and not (entry.name.endswith((".py", ".ipynb")) and _is_file(entry)):
                continue
            place = os.path.join(absolute, entry.name)
            if matches(settings.exclude, place) or is_ignored(place, is_folder, ignores):
                continue
            path = entry.name if folder == "." else os.path.join(folder, entry.name)
            inner = os.path.join(real, entry.name)
            if is_folder:
                folders.append((path, place, inner, ignores))
            else:
                yield os.path.realpath(inner) if entry.is_symlink() else inner, File(path, settings, named=False)


def _is_file(entry: os.DirEntry[str]) -> bool:
    try:
        return entry.is_file()
    except OSError:  # a link that leads to itself
        return False


@dataclass(frozen=True)
class Ignore:
    """One .gitignore and the folder its patterns are relative to."""

    folder: str
    spec: GitIgnoreSpec


def read_ignore(folder: str, file: str) -> tuple[Ignore, ...]:
    """The patterns of ``file``, relative to ``folder``; like git, past a file or a pattern that cannot be read."""
    try:
        with open(file, encoding="utf-8", errors="replace") as stream:
            lines = stream.read().splitlines()
    except OSError:
        return ()
    from pathspec import GitIgnoreSpec  # only projects that have a .gitignore pay for the import

    patterns = []
    for line in lines:
        try:
            GitIgnoreSpec.from_lines([line])
        except ValueError:
            continue
        patterns.append(line)
    return (Ignore(folder, GitIgnoreSpec.from_lines(patterns)),) if patterns else ()


def ignores_above(root: str) -> tuple[Ignore, ...]:
    """The patterns of the repository above a folder that apply to it, outermost first."""
    ignores: tuple[Ignore, ...] = ()
    top = root
    while not os.path.exists(os.path.join(top, ".git")):
        parent = os.path.dirname(top)
        if parent == top:
            return ()  # not in a repository: the folders above do not belong to this project
        top = parent
        ignores = (*read_ignore(top, os.path.join(top, ".gitignore")), *ignores)
    ignores = (*read_ignore(top, os.path.join(top, ".git", "info", "exclude")), *ignores)
    # A folder that is named is checked, even if git ignores it.
    return () if _is_ignored_with_parents(root, top, ignores) else ignores


def _is_ignored_with_parents(path: str, top: str, ignores: tuple[Ignore, ...]) -> bool:
    while path != top:
        if is_ignored(path, True, ignores):
            return True
        path = os.path.dirname(path)
    return False


def is_ignored(path: str, is_folder: bool, ignores: tuple[Ignore, ...]) -> bool:
    """Whether git ignores a path whose parents it does not ignore; the innermost file that has a say decides."""
    for ignore in reversed(ignores):
        if not path.startswith(ignore.folder.rstrip(os.sep) + os.sep):
            continue  # reached through a link
        relative = os.path.relpath(path, ignore.folder) if os.sep != "/" else path[len(ignore.folder.rstrip("/")) + 1 :]
        verdict = ignore.spec.check_file(relative + "/" if is_folder else relative).include
        if verdict is not None:
            return verdict
    return False
