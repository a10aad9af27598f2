"""Arguments of a `DataLoader` that have their default value: absent, or set to it, in the call or elsewhere."""

from __future__ import annotations

from dataclasses import dataclass

import libcst as cst

from torchlint.model.module import Module
from torchlint.model.program.config_files import ConfigFiles
from torchlint.model.program.configuration import Configuration
from torchlint.model.syntax.calls import Argument, Call, Presence
from torchlint.rule import Note


@dataclass(frozen=True)
class AtDefault:
    """An argument that has its default value."""

    name: str
    argument: Argument
    written: cst.BaseExpression | None  #: the literal that it is set to; None if the argument is absent
    deliberate: bool  #: whether there is a comment where it is set
    unset: bool = False  #: whether a configuration file could set it, and none does
    configured: str = ""  #: the configuration files that set it, as a text for a note

    @property
    def absent(self) -> bool:
        """Whether the argument is absent from the call."""
        return self.argument.absent

    @property
    def is_elsewhere(self) -> bool:
        """Whether the value is not in the call."""
        if self.configured:
            return True
        node = self.argument.node
        return self.written is not None and (node is None or node.value is not self.written)

    def notes(self, module: Module, value: str) -> tuple[Note, ...]:
        """A note on where it is set to ``value``, unless the call shows it."""
        if self.configured:
            return (Note(self.configured),)
        if self.written is None or not self.is_elsewhere:
            return ()
        text = f"no configuration file of the project sets `{self.name}`, which defaults to {value}"
        return (Note.at(module, self.written, text if self.unset else f"`{self.name}` is set to {value}"),)


def at_default(module: Module, call: Call, name: str, default: str) -> AtDefault | None:
    """The argument ``name`` of ``call`` if it is absent or set to the literal ``default``; else None."""
    argument = call.argument(name)
    if argument.presence is Presence.UNKNOWN:
        argument = _optional(call, name, default) or argument
    written = module.fact(Configuration).written_as(argument.value, default)
    unset = written is None and not argument.absent
    if unset:
        configured = module.fact(ConfigFiles).usual(argument.value, default) if argument.value is not None else ""
        if configured:
            return AtDefault(name, argument, None, False, configured=configured)
        written = _unset(module, argument.value, default)
        if written is None:
            return None
    places = dict.fromkeys(node for node in (argument.node, written) if node is not None)
    return AtDefault(name, argument, written, any(_has_comment(module, node, name) for node in places), unset)


def _has_comment(module: Module, node: cst.CSTNode, name: str) -> bool:
    """Whether a comment is on a row of ``node``, or above its statement and names the argument."""
    if module.comment_on(node):
        return True
    row = module.statement_rows(node)[0] - 1
    while row and (line := module.line(row).strip()).startswith("#"):
        if name in line:
            return True
        row -= 1
    return False


def _optional(call: Call, name: str, default: str) -> Argument | None:
    """The argument in a dictionary that may be empty, at its default: ``{"num_workers": 0} if gpu else {}``."""
    found = call.entries(name)
    entries = [Argument(Presence.PRESENT, entry=value) for value in found.values]
    agree = found.known and all(entry.literal() == default for entry in entries)
    return entries[0] if entries and agree else None


def _unset(module: Module, node: cst.BaseExpression | None, default: str) -> cst.BaseExpression | None:
    """Where ``node`` is ``default``, because no configuration file of the project sets it."""
    found = module.fact(Configuration).sources(node) if node is not None else None
    values = found.values if found is not None and found.complete else ()
    literals = [module.fact(ConfigFiles).unset(value) for value in values]
    agree = all(isinstance(item, (cst.Integer, cst.Name)) and item.value == default for item in literals)
    return literals[0] if literals and agree else None
