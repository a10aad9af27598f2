"""The oldest torch that requirements allow, and the torch that code needs."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import TYPE_CHECKING

from torchlint.source.lexemes import code_of

if TYPE_CHECKING:
    from packaging.specifiers import SpecifierSet

Version = tuple[int, int]

#: The oldest release for Python 3.10, the oldest supported Python: an open bound does not install an older one.
_OLDEST = (1, 11)
#: Newer than every release.
_NEWEST = (999, 0)


def oldest_torch(requirements: Sequence[str]) -> Version | None:
    """The oldest torch that all of ``requirements`` allow; None if they allow any.

    Of requirements with markers, such as those of single platforms, the lowest counts. A lower bound counts as
    `_OLDEST` at least, unless the requirement allows only older releases: a pin, or an upper bound.
    """
    from packaging.requirements import Requirement
    from packaging.utils import canonicalize_name

    always: list[Version] = []
    sometimes: list[Version | None] = []
    for text in requirements:
        try:
            requirement = Requirement(text)
        except (ValueError, RecursionError):  # not valid, a number of thousands of digits, or nested too deeply
            continue
        if canonicalize_name(requirement.name) != "torch":
            continue
        oldest = _oldest(requirement.specifier)
        if requirement.marker is not None:
            sometimes.append(oldest)
        elif oldest is not None:
            always.append(oldest)
    known = [version for version in sometimes if version is not None]
    if known and len(known) == len(sometimes):
        always.append(min(known))
    return max(always, default=None)


def _oldest(specifiers: SpecifierSet) -> Version | None:
    from packaging.version import Version as Release

    lower: Version | None = None
    newest = _NEWEST
    for specifier in specifiers:
        try:
            release = Release(specifier.version.removesuffix(".*")).release
        except ValueError:  # `===` takes any text
            continue
        version, is_patch = (release[0], (*release, 0)[1]), len(release) > 2
        if specifier.operator in ("==", "==="):
            return version
        if specifier.operator == "<=":
            newest = min(newest, version)
        elif specifier.operator == "<":  # before 1.8 is 1.7, and before 2.0 the last of 1
            before = version if any(release[2:]) else (version[0], version[1] - 1)
            newest = min(newest, before if before[1] >= 0 else (version[0] - 1, 999))
        elif specifier.operator in (">", ">=", "~="):
            lower = max(lower or version, version)
            if specifier.operator == "~=":
                newest = min(newest, version if is_patch else (version[0], 999))
    if newest < _OLDEST:
        return lower or newest
    return lower and max(lower, _OLDEST)


#: What code can only use with that version of torch or a newer one, outermost names first.
_PROOFS: tuple[tuple[Version, str], ...] = (
    ((2, 6), r"\btorch\.accelerator\.\w"),
    ((2, 5), r"\btorch\.nn\.attention\.flex_attention\b"),
    ((2, 3), r"\btorch\.(?:amp\.GradScaler|nn\.attention\.sdpa_kernel)\b|\bfrom torch\.amp import[^\n]*\bGradScaler\b"),
    ((2, 1), r"\btorch\.export\.export\b"),
    ((2, 0), r"\btorch\.(?:compile|set_default_device)\b|\btorch\.func\.\w|\.scaled_dot_product_attention\b"),
)
_PATTERNS = tuple((version, re.compile(pattern)) for version, pattern in _PROOFS)
#: Each of them contains one of these words, which take less time to look for.
_WORDS = (
    *("accelerator", "flex_attention", "GradScaler", "sdpa_kernel", "torch.export", "torch.compile"),
    *("set_default_device", "torch.func", "scaled_dot_product_attention"),
)
#: Code that checks the version, or handles a missing name, may run with an older torch as well.
_GUARD = re.compile(
    r"hasattr\(|getattr\(torch|version|except\s*\(?[^\n:]*(?:Attribute|Import|ModuleNotFound)Error", re.IGNORECASE
)


def needed_by(text: str) -> Version | None:
    """The torch that a Python file needs, as the names show that it uses; None if it may run with any."""
    if "torch" not in text or not any(word in text for word in _WORDS):
        return None
    code = code_of(text)
    if _GUARD.search(code):
        return None
    return next((version for version, pattern in _PATTERNS if pattern.search(code)), None)
