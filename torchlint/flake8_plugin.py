"""The flake8 plugin: torchlint's findings, under torchlint's settings, as flake8 violations."""

from __future__ import annotations

import argparse
import ast
import os
from collections.abc import Iterator, Sequence
from functools import cache
from typing import TYPE_CHECKING, ClassVar

from torchlint import __version__

if TYPE_CHECKING:
    from torchlint.settings.resolver import Resolver

#: Not the code of a rule: a rule raised, which is a bug. The other files and rules are still checked.
CRASH = "TL000"


class Plugin:
    """What flake8 makes for each file. It hands over the lines as it has read them, from standard input as well."""

    name: ClassVar[str] = "torchlint"
    version: ClassVar[str] = __version__
    ignore_noqa: ClassVar[bool] = False

    def __init__(self, tree: ast.AST, lines: Sequence[str], filename: str) -> None:
        # ``tree`` is not used: that it is asked for tells flake8 to call once per file, and not where there is E999.
        self._text = "".join(lines)
        self._path = filename

    @classmethod
    def parse_options(cls, options: argparse.Namespace) -> None:
        """Take flake8's ``--disable-noqa`` for torchlint's ``--ignore-noqa``."""
        cls.ignore_noqa = options.disable_noqa

    def run(self) -> Iterator[tuple[int, int, str, type[Plugin]]]:
        """Row (from 1), column (from 0), code and message of each finding."""
        from flake8.exceptions import ExecutionError  # type: ignore[import-untyped]

        from torchlint.engine.checker import InternalError, check
        from torchlint.settings.files import is_excluded
        from torchlint.settings.layers import SettingsError
        from torchlint.source.source import Source

        try:
            settings = _resolver(self.ignore_noqa).for_folder(os.path.dirname(self._path) or ".")
        except SettingsError as error:
            raise ExecutionError(f"torchlint: {error}") from error  # flake8 prints it in one line and ends
        if is_excluded(self._path, settings):
            return
        crashes: list[InternalError] = []
        source = Source.from_text(self._text, self._path)
        for diagnostic in check(source, settings, on_crash=crashes.append):
            row, column = source.location(diagnostic.start)
            yield row, column - 1, f"{diagnostic.code} {diagnostic.message}", type(self)
        for crash in crashes:
            yield 1, 0, f"{CRASH} {crash}", type(self)


@cache
def _resolver(ignore_noqa: bool) -> Resolver:
    from torchlint.settings.resolver import Resolver

    return Resolver(ignore_noqa=ignore_noqa)
