"""The type of the values that the options of rules have."""

from __future__ import annotations

from typing import TypeAlias

#: The value of a rule's option in the settings.
Option: TypeAlias = "str | int | float | bool"
