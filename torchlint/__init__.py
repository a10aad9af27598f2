"""torchlint: a linter for PyTorch performance anti-patterns.

The functions here are the Python API. They import what they need when they are called.
"""

# ``python -m torchlint`` imports this file while the current folder, which may be untrusted, is on the import path:
# nothing is imported here, not even `__future__` or `typing`.
TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping
    from concurrent.futures import Executor
    from typing import Any

    from torchlint.engine.fixer import Fixed
    from torchlint.engine.results import Result
    from torchlint.findings.diagnostic import Diagnostic
    from torchlint.settings.settings import Settings

__version__ = "0.1.0"

__all__ = ["__version__", "check_paths", "check_text", "fix_text", "load_settings"]


def load_settings(folder: "str | None" = None, overrides: "Mapping[str, Any] | None" = None) -> "Settings":
    """The settings of ``folder``, with ``overrides`` (the keys of ``[tool.torchlint]``) on top.

    Without a folder no file is read: the defaults and ``overrides``. Raises SettingsError.
    """
    import os

    from torchlint.settings.layers import layer_of
    from torchlint.settings.resolver import Resolver

    layers = [layer_of(overrides, "overrides", os.getcwd())] if overrides else []
    return Resolver(layers, isolated=folder is None).for_folder(folder or ".")


def check_text(text: str, path: str = "<text>", settings: "Settings | None" = None) -> "list[Diagnostic]":
    """The diagnostics of a text. Raises InternalError if a rule does.

    If ``path`` ends with ``.ipynb``, the text is that of a notebook file, and offsets are those in ``.text`` of
    ``torchlint.source.reading.from_content(text, path)``.
    """
    from torchlint.engine.checker import check, unreadable
    from torchlint.source import reading
    from torchlint.source.source import SourceError

    settings = settings or load_settings()
    try:
        source = reading.from_content(text, path)
    except SourceError as error:
        return unreadable(path, error, settings)
    return check(source, settings, syntax=True)


def check_paths(
    paths: "Iterable[str]", settings: "Settings | None" = None, executor: "Executor | None" = None
) -> "list[Result]":
    """The results of files and folders, sorted by path; by default each file has the settings of its folder.

    The work is done by ``executor``, which may be any ``concurrent.futures.Executor``, else by processes of its own.
    A path that cannot be read gives a result with an error.
    """
    from torchlint.engine.results import Result
    from torchlint.engine.runner import run
    from torchlint.settings.files import find_files
    from torchlint.settings.resolver import Resolver

    found = find_files(paths, Resolver().for_folder if settings is None else lambda _: settings)
    results = run(found.files, executor=executor)
    return [*results, *(Result(path="", errors=(str(error),)) for error in found.errors)]


def fix_text(text: str, path: str = "<text>", settings: "Settings | None" = None) -> "Fixed":
    """A text with its fixes applied: the safe ones, and with ``unsafe-fixes`` set the others too.

    If ``path`` ends with ``.ipynb``, the text is that of a notebook file, and ``.source.to_bytes()`` of the result is
    the fixed one.
    """
    from torchlint.engine.checker import unreadable
    from torchlint.engine.fixer import Fixed, fix
    from torchlint.source import reading
    from torchlint.source.source import Source, SourceError

    settings = settings or load_settings()
    try:
        source = reading.from_content(text, path)
    except SourceError as error:
        return Fixed(Source.from_text(text, path), unreadable(path, error, settings))
    return fix(source, settings, syntax=True)
