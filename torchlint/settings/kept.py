"""Where a project's cache is, and settings that were combined in an earlier run: for them no rule need be loaded."""

from __future__ import annotations

import glob
import os
from collections.abc import Callable, Sequence

from torchlint.cache.coding import CodingError, decode, encode
from torchlint.cache.folder import NAME, CacheFolder, digest
from torchlint.settings.layers import Layer, path_in
from torchlint.settings.settings import Settings

#: Their name in the cache, and how many it contains.
_NAME = "settings"
_MOST = 50


def cache_folder(layers: Sequence[Layer], root: str) -> CacheFolder:
    """The folder of the cache: that of the settings, else one in ``root``. Raises SettingsError."""
    given = path_in(layers, "cache-dir")
    return CacheFolder(os.path.realpath(given) if given else os.path.join(root, NAME))


def cached_or_combined(
    combine: Callable[[], Settings], layers: Sequence[Layer], cache: CacheFolder, given: object
) -> Settings:
    """The settings that ``combine`` makes of layers and of what else is ``given``; kept for the next run."""
    if not all(map(_is_all_there_is, layers)):
        return combine()
    key = digest(repr((given, [(layer.where, layer.folder, layer.values, layer.trusted) for layer in layers])))
    kept = cache.read(_NAME)
    if isinstance(kept, dict) and key in kept:
        try:
            return decode(Settings, kept[key])
        except CodingError:
            pass
    settings = combine()
    others = dict(list(kept.items())[1 - _MOST :]) if isinstance(kept, dict) else {}
    cache.write(_NAME, {**others, key: encode(settings)})
    return settings


def _is_all_there_is(layer: Layer) -> bool:
    """Whether settings depend on what a layer says alone: not on folders that match a pattern, nor on plugins."""
    return not layer.values.get("plugins") and not any(map(glob.has_magic, layer.values.get("src", ())))
