"""Environment variables that set options of ``torchlint check``; the options themselves take precedence."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

from torchlint.commands import UsageError

if TYPE_CHECKING:
    from torchlint.settings.layers import Layer

#: Variable -> the setting that it sets.
SETTINGS = {
    "TORCHLINT_CACHE_DIR": "cache-dir",
    "TORCHLINT_DEVICE": "device",
    "TORCHLINT_FAIL_ON": "fail-on",
    "TORCHLINT_OUTPUT_FORMAT": "output-format",
    "TORCHLINT_TARGET_TORCH": "target-torch",
}
#: Variable -> the option that it sets, which is not a setting.
OPTIONS = {"TORCHLINT_NO_CACHE": "no-cache", "TORCHLINT_OUTPUT_FILE": "output-file"}

_BOOLEANS = {"1": True, "true": True, "yes": True, "0": False, "false": False, "no": False}


def layers() -> list[Layer]:
    """The settings that the environment sets. Raises SettingsError."""
    from torchlint.settings.layers import layer_of

    given = {name: os.environ[name] for name in SETTINGS if os.environ.get(name)}
    return [layer_of({SETTINGS[name]: value}, name, os.getcwd()) for name, value in given.items()]


def is_cache_off() -> bool:
    """Whether ``TORCHLINT_NO_CACHE`` is set. Raises UsageError for a value that is not true or false."""
    value = os.environ.get("TORCHLINT_NO_CACHE", "")
    if value and value.lower() not in _BOOLEANS:
        raise UsageError(f"TORCHLINT_NO_CACHE must be true or false, not `{value}`")
    return _BOOLEANS.get(value.lower(), False)


def output_file() -> str | None:
    """The file that ``TORCHLINT_OUTPUT_FILE`` names, if it names one."""
    return os.environ.get("TORCHLINT_OUTPUT_FILE") or None


def variable_of(option: str) -> str | None:
    """The variable that sets an option, which is named without dashes in front."""
    names = {option: name for name, option in {**SETTINGS, **OPTIONS}.items()}
    return names.get(option)
