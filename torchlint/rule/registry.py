"""The rules a run knows: the built-in pack and those of third parties come in through the same door."""

from __future__ import annotations

import importlib
import importlib.util
import pkgutil
import re
import sys
from collections.abc import Iterable, Sequence
from functools import cache
from pathlib import Path
from types import ModuleType

from torchlint.rule.rule import Rule

#: The pack that comes with torchlint; in the repository it is the folder ``rules/``.
BUILTIN_PACK = "torchlint_rules"

_DIGITS = "0123456789"
_CODE = re.compile(r"[A-Z]{2,4}\d{3}")
_NAME = re.compile(r"[a-z][a-z0-9]*(-[a-z0-9]+)*")


class RegistryError(Exception):
    """A rule pack cannot be loaded; the text is one line for the user."""


@cache
def load_rules(plugins: tuple[str, ...] = ()) -> tuple[Rule, ...]:
    """All rules of the built-in pack and of ``plugins`` (importable package names), ordered by code.

    Raises RegistryError if a pack cannot be imported or contains no rule, or if two rules share a code or a name.
    """
    rules: dict[str, Rule] = {}
    names: dict[str, Rule] = {}
    for pack in (BUILTIN_PACK, *plugins):
        found = _rules_of(_import_pack(pack))
        if not found:
            raise RegistryError(f"rule pack {pack!r} contains no rules")
        for rule in found:
            if not (_CODE.fullmatch(rule.code) and _NAME.fullmatch(rule.name)):
                raise RegistryError(f"rule pack {pack!r}: {rule.code!r} {rule.name!r} is not a rule code and name")
            taken = rules.get(rule.code) or names.get(rule.name)
            if taken is not None:
                raise RegistryError(f"rule pack {pack!r}: {rule.code} {rule.name} is already {taken.code} {taken.name}")
            rules[rule.code] = names[rule.name] = rule
    return tuple(rules[code] for code in sorted(rules))


def find_rule(rules: Iterable[Rule], code_or_name: str) -> Rule | None:
    """The rule with that code (any case) or name, or None."""
    for rule in rules:
        if code_or_name.upper() == rule.code or code_or_name.lower() == rule.name:
            return rule
    return None


def rules_below(rules: Iterable[Rule], prefix: str) -> list[Rule]:
    """The rules whose codes begin with a prefix (any case) that has all letters of their codes, such as TL1."""
    letters = prefix.upper().rstrip(_DIGITS)
    found = [rule for rule in rules if rule.code.startswith(prefix.upper())]
    return [rule for rule in found if letters and rule.code.rstrip(_DIGITS) == letters]


def builtin_folder() -> str | None:
    """The folder of the built-in pack, whose rules are not loaded for that; None if there is none."""
    try:
        return next(iter(_import_pack(BUILTIN_PACK).__path__), None)
    except RegistryError:
        return None


def _import_pack(pack: str) -> ModuleType:
    try:
        return importlib.import_module(pack)
    except ModuleNotFoundError as error:
        if pack == BUILTIN_PACK and error.name == BUILTIN_PACK:
            return _import_from_repository()
        raise RegistryError(f"rule pack {pack!r} cannot be imported: {error}") from error
    except Exception as error:
        raise RegistryError(f"rule pack {pack!r} cannot be imported: {type(error).__name__}: {error}") from error


def _import_from_repository() -> ModuleType:
    """Load ``rules/`` next to this package: running from a checkout that is not installed."""
    folder = Path(__file__).resolve().parents[2] / "rules"
    spec = importlib.util.spec_from_file_location(
        BUILTIN_PACK, folder / "__init__.py", submodule_search_locations=[str(folder)]
    )
    if spec is None or spec.loader is None or not (folder / "__init__.py").is_file():
        raise RegistryError("the built-in rules are missing: install torchlint with `pip install .`")
    module = importlib.util.module_from_spec(spec)
    sys.modules[BUILTIN_PACK] = module
    spec.loader.exec_module(module)
    return module


def _rules_of(pack: ModuleType) -> Sequence[Rule]:
    """The rules defined in the modules of a pack, however deep; a module whose name begins with `_` has none."""
    found: list[Rule] = []
    modules = [pack]
    for info in pkgutil.walk_packages(getattr(pack, "__path__", []), pack.__name__ + "."):
        if info.name.rpartition(".")[2].startswith("_"):
            continue
        try:
            modules.append(importlib.import_module(info.name))
        except Exception as error:
            raise RegistryError(f"rule module {info.name!r}: {type(error).__name__}: {error}") from error
    for module in modules:
        for value in vars(module).values():
            if isinstance(value, type) and issubclass(value, Rule) and value.__module__ == module.__name__:
                if hasattr(value, "code"):
                    found.append(value())
    return found
