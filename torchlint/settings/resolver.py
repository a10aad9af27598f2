"""``Resolver``: the settings of a folder, from the nearest settings file and the command line."""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

from torchlint.cache.folder import CacheFolder
from torchlint.rule.evidence import own_stamp
from torchlint.settings.combination import check_baseline, combine
from torchlint.settings.kept import cache_folder, cached_or_combined
from torchlint.settings.layers import Layer, SettingsError, chain, parse_toml, table_in
from torchlint.settings.requirements import stated_in
from torchlint.settings.settings import Settings
from torchlint.settings.torch_versions import oldest_torch

#: The settings file of a folder, and the torch requirements of its project.
Found = tuple[str | None, tuple[str, ...]]


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
        self._nearest: dict[str, Found] = {}
        self._settings: dict[Found, Settings] = {}

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

    def _source(self, folder: str) -> Found:
        """The settings file of a folder, and the torch requirements of its project."""
        file, requirements = (None, ()) if self._isolated else self._find(folder)
        return (file if self._config is None else self._config), requirements

    def _resolve(self, folder: str) -> Settings:
        file, requirements = self._source(folder)
        if (file, requirements) not in self._settings:
            root = os.path.dirname(file) if file is not None else os.getcwd()
            settings = replace(
                self._combined(self._layers(file), requirements, root), isolated_files=self._isolated_files
            )
            if self._ignore_baseline:
                settings = replace(settings, ignore_baseline=True)
            else:
                check_baseline(settings)
            self._settings[file, requirements] = settings
        return self._settings[file, requirements]

    def _combined(self, layers: Sequence[Layer], requirements: tuple[str, ...], root: str) -> Settings:
        def combined() -> Settings:
            target = oldest_torch(requirements) if requirements else None
            return combine(layers, target, self._ignore_noqa, root, allow_plugins=self._allow_plugins)

        if not self._caches:
            return combined()
        return cached_or_combined(
            combined, layers, cache_folder(layers, root), (requirements, self._ignore_noqa, root, own_stamp())
        )

    def cache(self, folder: str) -> CacheFolder:
        """The cache of a run that begins in ``folder``. Raises SettingsError."""
        file, _ = self._source(os.path.abspath(folder))
        return cache_folder(self._layers(file), os.path.dirname(file) if file is not None else os.path.abspath(folder))

    def _find(self, folder: str) -> Found:
        """The nearest settings file, and the torch requirements of the nearest project that states some."""
        if folder not in self._nearest:
            parent = os.path.dirname(folder)
            above: Found = (None, ()) if parent == folder else self._find(parent)
            self._nearest[folder] = _look_in(folder, above)
        return self._nearest[folder]


def _look_in(folder: str, above: Found) -> Found:
    file, requirements = above
    pyproject = os.path.join(folder, "pyproject.toml")
    try:
        with open(pyproject, "rb") as stream:
            data = stream.read()
    except OSError:
        data = b""
    table: dict[str, Any] = {}
    if b"torch" in data.lower():  # else it contains neither settings nor a requirement, and is not parsed
        try:
            table = parse_toml(data, pyproject)
        except SettingsError:
            if b"torchlint" in data:
                raise
        if "torchlint" in table_in(table.get("tool")):
            file = pyproject
    declared = stated_in(folder, table)
    if declared or "project" in table:
        requirements = declared
    own = os.path.join(folder, "torchlint.toml")
    return (own if os.path.isfile(own) else file), requirements


@dataclass(frozen=True)
class Given:
    """What ``--config`` and ``--isolated`` say."""

    layers: tuple[Layer, ...] = ()  #: single settings
    config: str | None = None  #: the settings file
    isolated: bool = False

    def resolver(self, *, below: Sequence[Layer] = (), above: Sequence[Layer] = ()) -> Resolver:
        """Finds settings with these, between other ones that are not in files."""
        return Resolver((*below, *self.layers, *above), config=self.config, isolated=self.isolated)
