"""``torchlint clean``: deletes what torchlint keeps from one run to the next."""

from __future__ import annotations

import os
import shutil
import sys
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

from torchlint.commands import CLEAN, FAULT, Parser, environment, given_settings, report_error, report_warning

if TYPE_CHECKING:
    from torchlint.settings.resolver import Given


def parser() -> Parser:
    """Its arguments."""
    parser = Parser(
        prog="torchlint clean",
        description="Delete torchlint's caches in folders and below them, and the cache that the settings name.",
    )
    parser.add_argument("paths", nargs="*", metavar="FOLDER", help="where to look (default: .)")
    return parser


def run(arguments: Sequence[str]) -> int:
    """Delete the caches; the exit status is 2 if one cannot be deleted."""
    from torchlint.output.text import display_path

    options = parser().options_and_paths(arguments)
    given = given_settings(options)
    status = CLEAN
    for path in options.paths:
        if not os.path.isdir(path):
            report_error(f"{path}: no such folder")
            status = FAULT
    for folder in dict.fromkeys(cache for path in options.paths or ["."] for cache in _caches(path, given)):
        try:
            shutil.rmtree(folder)
        except OSError as error:
            report_error(f"{folder}: cannot be deleted: {error.strerror or error}")
            status = FAULT
        else:
            if not options.quiet:
                print(f"Removed {display_path(folder)}", file=sys.stderr)
    return status


def _caches(path: str, given: Given) -> Iterator[str]:
    """The absolute paths of the caches below a folder, and of the one that its settings name."""
    from torchlint.cache.folder import NAME, is_cache
    from torchlint.settings.layers import SettingsError

    try:
        configured = given.resolver(below=environment.layers()).cache(path).path
    except SettingsError as error:
        configured = ""
        report_warning(f"a cache named in the settings is not deleted; correct them and run this again: {error}")
    if configured and is_cache(configured):
        yield configured
    for place, folders, _ in os.walk(os.path.abspath(path)):
        if NAME in folders:
            folders.remove(NAME)
            if is_cache(os.path.join(place, NAME)):
                yield os.path.join(place, NAME)
