"""``--verbose``: which settings, versions and caches a run has used, and how long it took."""

from __future__ import annotations

import platform
import sys
from collections.abc import Sequence
from typing import TYPE_CHECKING

from torchlint import __version__
from torchlint.output.text import display_path, plural

if TYPE_CHECKING:
    from torchlint.cache.folder import CacheFolder
    from torchlint.engine.results import Result
    from torchlint.settings.resolver import Resolver
    from torchlint.settings.settings import Settings


def describe(
    resolver: Resolver, settings: Settings, cache: CacheFolder | None, results: Sequence[Result], seconds: float
) -> None:
    """Print the facts of a run to standard error, one a line."""
    sources = [layer.where for layer in resolver.layers("") if layer.values or not layer.trusted]
    target = ".".join(map(str, settings.target_torch)) if settings.target_torch else "unknown"
    kept = sum(result.timing is None for result in results)
    facts = (
        f"torchlint {__version__}, Python {platform.python_version()}",
        f"settings: {', '.join(map(display_path, sources)) or 'defaults'}",
        f"oldest supported torch: {target}",
        f"rules: {len(settings.rules())}",
        f"cache: {display_path(cache.path) if cache is not None else 'none'}",
        f"{plural(len(results), 'file')} checked in {seconds:.2f} s, {kept} of them from the cache",
    )
    for fact in facts:
        print(f"[verbose] {fact}", file=sys.stderr)
