"""The codes and names of the two diagnostics that the engine itself reports; their pages are in ``engine_rules``."""

from __future__ import annotations

from typing import NamedTuple


class EngineCode(NamedTuple):
    """The code and the name of a diagnostic."""

    code: str
    name: str


UNUSED_SUPPRESSION = EngineCode("TL001", "unused-suppression")
INVALID_SYNTAX = EngineCode("TL002", "invalid-syntax")
