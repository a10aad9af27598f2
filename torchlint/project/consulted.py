"""What answers depended on, as data for a cache."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path


@dataclass
class Consulted:
    """What was looked at since the recording began."""

    texts: set[Path] = field(default_factory=set)  #: files whose text was used
    missing: set[tuple[str, Path]] = field(default_factory=set)  #: modules that were not found, and their importers
    identifiers: set[str] = field(default_factory=set)  #: asked of the mentions of all files
    imports: bool = False  #: whether the imports of all files were used
    listing: bool = False  #: whether the list of files was used
