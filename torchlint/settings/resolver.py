"""``Resolver``: the settings of a folder, from the nearest settings file and the command line."""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from torchlint.cache.folder import CacheFolder
from torchlint.settings.combination import check_baseline, combine
from torchlint.settings.kept import cache_folder, kept_or_combined
from torchlint.settings.layers import Layer, SettingsError, chain, parse_toml, table_in
from torchlint.settings.requirements import listed_in, oldest_torch
from torchlint.settings.settings import Settings


class Resolver:
    """Finds the settings of a folder: the nearest file up the tree, what it extends, and the command line on top."""

    def __init__(
        self,
        overrides: Sequence[Layer] = (),
        *,
        config: str | None = None,
        isolated: bool = False,
        isolated_files: bool = False,
        ignore_noqa: bool = False,
        ignore_baseline: bool = False,
        allow_plugins: bool = False,
        caches: bool = False,
    ) -> None:
        """``caches`` keeps settings from one run to the next."""
        self._overrides = tuple(overrides)
        self._config = os.path.abspath(config) if config is not None else None
        self._isolated = isolated
        self._ignore_noqa = ignore_noqa
        self._isolated_files = isolated_files
        self._ignore_baseline = ignore_baseline
        self._allow_plugins = allow_plugins
        self._caches = caches
        self._folders: dict[str, Settings] = {}
        self._nearest: dict[str, tuple[str | None, tuple[int, int] | None]] = {}
        self._settings: dict[tuple[str | None, tuple[int, int] | None], Settings] = {}

    def for_folder(self, folder: str) -> Settings:
        """The settings of the files directly in ``folder``. Raises SettingsError."""
        settings = self._folders.get(folder)
        if settings is None:
            settings = self._folders[folder] = self._resolve(os.path.abspath(folder))
        return settings

    def layers(self, folder: str) -> list[Layer]:
        """What sets something for the files directly in ``folder``, the weakest first. Raises SettingsError."""
        return self._layers(self._source(os.path.abspath(folder))[0])

    def _layers(self, file: str | None) -> list[Layer]:
        return [*(chain(file) if file is not None else ()), *self._overrides]

    def _source(self, folder: str) -> tuple[str | None, tuple[int, int] | None]:
        """The settings file that holds for a folder, and the torch version that its project asks for."""
        file, target = (None, None) if self._isolated else self._find(folder)
        return (file if self._config is None else self._config), target

    def _resolve(self, folder: str) -> Settings:
        file, target = self._source(folder)
        if (file, target) not in self._settings:
            root = os.path.dirname(file) if file is not None else os.getcwd()
            settings = replace(self._combined(self._layers(file), target, root), isolated_files=self._isolated_files)
            if self._ignore_baseline:
                settings = replace(settings, ignore_baseline=True)
            else:
                check_baseline(settings)
            self._settings[file, target] = settings
        return self._settings[file, target]

    def _combined(self, layers: Sequence[Layer], target: tuple[int, int] | None, root: str) -> Settings:
        def combined() -> Settings:
            return combine(layers, target, self._ignore_noqa, root, allow_plugins=self._allow_plugins)

        if not self._caches:
            return combined()
        return kept_or_combined(combined, layers, cache_folder(layers, root), (target, self._ignore_noqa, root))

    def cache(self, folder: str) -> CacheFolder:
        """The cache of a run that begins in ``folder``. Raises SettingsError."""
        file, _ = self._source(os.path.abspath(folder))
        return cache_folder(self._layers(file), os.path.dirname(file) if file is not None else os.path.abspath(folder))

    def _find(self, folder: str) -> tuple[str | None, tuple[int, int] | None]:
        """The nearest settings file, and the torch version that the nearest project asks for."""
        if folder not in self._nearest:
            parent = os.path.dirname(folder)
            above: tuple[str | None, tuple[int, int] | None] = (None, None) if parent == folder else self._find(parent)
            self._nearest[folder] = _look_in(folder, above)
        return self._nearest[folder]


def _look_in(
    folder: str, above: tuple[str | None, tuple[int, int] | None]
) -> tuple[str | None, tuple[int, int] | None]:
    file, target = above
    requirements: list[Any] | None = None
    pyproject = os.path.join(folder, "pyproject.toml")
    try:
        with open(pyproject, "rb") as stream:
            data = stream.read()
    except OSError:
        data = b""
    if b"torch" in data:  # else it holds neither settings nor a requirement, and is not parsed
        try:
            table = parse_toml(data, pyproject)
        except SettingsError:
            if b"torchlint" in data:
                raise
            table = {}
        if "torchlint" in table_in(table.get("tool")):
            file = pyproject
        if "project" in table:
            target = None
            dependencies = table_in(table["project"]).get("dependencies")
            requirements = dependencies if isinstance(dependencies, list) else None
    if requirements is None:
        requirements = listed_in(folder)
    if requirements:
        target = oldest_torch(requirements)
    own = os.path.join(folder, "torchlint.toml")
    return (own if os.path.isfile(own) else file), target
