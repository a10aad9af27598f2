"""Settings that a program reads from configuration files by a key: ``config["workers"]``, ``cfg.data.workers``."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import cached_property

import libcst as cst

from torchlint.model.forest import Forest, ForestFact
from torchlint.model.program.configuration import Configuration, unconverted
from torchlint.model.program.options import Options
from torchlint.model.program.switches import Switches
from torchlint.model.semantics.knowledge import Kind
from torchlint.model.syntax.binding_kinds import BindingKind
from torchlint.model.syntax.context import CLASS_KEYS, ConfigValue
from torchlint.model.syntax.dotted import PARTS, base_of, last_name
from torchlint.model.syntax.parameters import owner_of

#: How many names and attributes a setting is followed through.
_DEPTH = 8
#: A value counts if at most one in so many of the files that give the key has another one: they are for small runs.
_ONE_IN = 10
_COUNT = re.compile(r"0*[1-9]\d{0,3}")
_ZERO = re.compile(r"0+")
_TRUE = re.compile("true|True|TRUE|yes|Yes|YES|on|On|ON")
_FALSE = re.compile("false|False|FALSE|no|No|NO|off|Off|OFF")
_CUDA = re.compile(r"""(["']?)cuda(:\d+)?\1""")
_SET = re.compile(f"{_COUNT.pattern}|{_TRUE.pattern}")
#: The key of the arguments of a class that a file names, if they are not next to it.
_PARAMETERS = "params"
#: What an object with the settings may be, as far as it is known.
_KINDS = (Kind.UNKNOWN, Kind.OTHER, Kind.SEQUENCE)


class ConfigFiles(ForestFact):
    """Answers for one forest.

    Who starts a program may name another file than those of the project, so that an answer is about what is usual.
    """

    def __init__(self, forest: Forest) -> None:
        self._forest = forest

    def count(self, node: cst.BaseExpression) -> bool:
        """Whether ``node`` is a setting that nearly all files of the project set to 1 or more."""
        return self.are_counts(self.values(node))

    def at_least(self, node: cst.BaseExpression, number: int) -> bool:
        """Whether ``node`` is a setting that nearly all files of the project set to ``number`` or more."""
        texts = [value.text for value in self.values(node)]
        return self._nearly_all([_COUNT.fullmatch(text) is not None and int(text) >= number for text in texts])

    def true(self, node: cst.BaseExpression) -> bool:
        """Whether ``node`` is a switch that nearly all files of the project set to True."""
        return self._are_true(self.values(node))

    def replaces_true(self, param: cst.Param) -> bool:
        """Whether the files give a parameter that is True by default another value: ``Data(**config["loader"])``."""
        function = owner_of(self._forest.tree, param)
        if function is None:
            return False
        calls, _ = self._forest.written.calls_of(function)
        owner = self._forest.tree.class_of(function)
        if owner is not None:
            calls = [*calls, *self._forest.definitions.registries.calls_in_factories(owner)]
        found = [value for call in calls for value in self.passed(call, param.name.value)] or self.of_class(param)
        return bool(found) and not self._are_true(found)

    def _are_true(self, values: Sequence[ConfigValue]) -> bool:
        return self._nearly_all([_TRUE.fullmatch(value.text) is not None for value in values])

    def turned_on(self, node: cst.Name | cst.Attribute) -> bool:
        """Whether most files of the project that set the parameter or attribute ``node`` set it to True."""
        place = self._forest.file_of_root[self._forest.tree.root_of(node)].place
        values = self._forest.configured(last_name(node), place)
        return 2 * sum(_TRUE.fullmatch(value.text) is not None for value in values) > len(values)

    def cuda(self, node: cst.BaseExpression) -> bool:
        """Whether ``node`` is a device that nearly all files of the project set to one of CUDA."""
        return self._nearly_all([_CUDA.fullmatch(value.text) is not None for value in self.values(node)])

    def equal(self, node: cst.BaseExpression, text: str) -> bool:
        """Whether ``node`` is a string that nearly all files of the project set to ``text``."""
        return self._nearly_all([value.text.strip("\"'") == text for value in self.values(node)])

    def usual(self, node: cst.BaseExpression, literal: str) -> str:
        """Where nearly all files of the project set ``node`` to ``0`` or ``False``, as a text for a note; or empty."""
        values = self.values(node)
        written = _ZERO if literal == "0" else _FALSE
        if not self._nearly_all([written.fullmatch(value.text) is not None for value in values]):
            return ""
        return self.text(self._name(node), values, written)

    def are_counts(self, values: Sequence[ConfigValue]) -> bool:
        """Whether nearly all of ``values`` are 1 or more."""
        return self._nearly_all([_COUNT.fullmatch(value.text) is not None for value in values])

    def default(self, node: cst.BaseExpression) -> cst.BaseExpression | None:
        """``4`` of ``config.get("workers", 4)``: what counts where the file lacks the key."""
        if isinstance(node, cst.Call) and len(node.args) == 2 and self._path(node) is None:
            return node.args[1].value
        return None

    def _path(self, node: cst.Call) -> tuple[str, str] | None:
        """The keys of ``config.get("loader", "workers")``, if files of the project have such a mapping."""
        if not isinstance(node.func, cst.Attribute) or node.func.attr.value != "get" or len(node.args) != 2:
            return None
        group, key = (self._forest.value(item.value).constant for item in node.args)
        if not isinstance(group, str) or not isinstance(key, str) or any(item.star for item in node.args):
            return None
        place = self._forest.file_of_root[self._forest.tree.root_of(node)].place
        return (group, key) if any(item.group == group for item in self._forest.configured(key, place)) else None

    def unset(self, node: cst.BaseExpression) -> cst.BaseExpression | None:
        """``False`` of ``options.get("pin", False)``, if files set other keys of ``options`` and none sets this one.

        None if it may have another value.
        """
        key, default = self._key(node), self.default(node)
        if key is None or default is None or self._is_set(key, node):
            return None
        assert isinstance(node, cst.Call) and isinstance(node.func, cst.Attribute)
        place = self._forest.file_of_root[self._forest.tree.root_of(node)].place
        base = node.func.value
        if self._forest.configured(key, place) or not isinstance(base, cst.Name):
            return None
        others = (
            self._read_at(use) for item in self._forest.names.bindings(base) for use in self._forest.names.uses(item)
        )
        return default if any(other is not None and self.values(other) for other in others) else None

    def _read_at(self, use: cst.Name) -> cst.BaseExpression | None:
        """What reads a setting of the object ``use``: ``options["workers"]``, ``options.get("workers")``."""
        above = self._forest.tree.parent(use)
        call = self._forest.tree.parent(above) if isinstance(above, cst.Attribute) else None
        if isinstance(call, cst.Call) and call.func is above:
            return call
        return above if isinstance(above, (cst.Attribute, cst.Subscript)) and above.value is use else None

    def behind(self, nodes: Iterable[cst.BaseExpression], fits: Callable[[cst.BaseExpression], bool]) -> str:
        """Where the first setting is written that one of ``nodes`` is computed from, as a text for a note; or empty.

        `fits` is `count`, `true` or `cuda`.
        """
        seen: dict[cst.CSTNode, int] = {}
        return next(filter(None, (self._behind(node, fits, _DEPTH, seen) for node in nodes)), "")

    def _behind(
        self,
        node: cst.BaseExpression,
        fits: Callable[[cst.BaseExpression], bool],
        depth: int,
        seen: dict[cst.CSTNode, int],
    ) -> str:
        """The same for one node. ``seen`` has what was looked at in vain, each with how far."""
        for item in self._forest.tree.nodes_in(node):
            if not isinstance(item, (cst.Name, cst.Attribute, cst.Subscript, cst.Call)) or seen.get(item, -1) >= depth:
                continue
            if item not in seen and fits(item):
                return self.text(self._name(item), self.values(item))
            seen[item] = depth
            written = self._forest.fact(Configuration).step(item) if not isinstance(item, cst.Call) else None
            for value in written.values if written is not None and depth > 0 else ():
                found = self._behind(value, fits, depth - 1, seen) if value is not item else ""
                if found:
                    return found
        return ""

    def values(self, node: cst.BaseExpression) -> Sequence[ConfigValue]:
        """What the files of the project set the key to by which ``node`` reads a setting; empty if it reads none.

        So does a parameter that all calls of its function get by ``**config["loader"]``.
        """
        node = unconverted(self._forest, node)
        if isinstance(node, cst.Name):
            return self._given(node)
        key = self._key(node)
        return () if key is None else _of_group(self._set_to(key, node), self._group(node))

    def _given(self, node: cst.Name) -> Sequence[ConfigValue]:
        param = self._forest.values.reaching.parameter(node)
        function = owner_of(self._forest.tree, param) if param is not None else None
        if function is None or param is None:
            return ()
        calls, _ = self._forest.written.calls_of(function)
        if not calls:
            return self.of_class(param)
        given = [self._forest.definitions.argument_of(call, function, param) for call in calls]
        found = [self.passed(call, node.value) for call in calls]
        return [value for values in found for value in values] if all(found) and not any(given) else ()

    def of_class(self, param: cst.Param) -> Sequence[ConfigValue]:
        """What the files give a parameter of a constructor whose class they name: ``target: data.Photos``."""
        constructor = owner_of(self._forest.tree, param)
        owner = self._forest.tree.class_of(constructor) if constructor is not None else None
        if owner is None or constructor is None or constructor.name.value != "__init__":
            return ()
        place = self._forest.file_of_root[self._forest.tree.root_of(owner)].place
        named = (value for key in CLASS_KEYS for value in self._forest.configured(key, place))
        groups = [(item.file, item.group) for item in named if item.text.strip("\"'").endswith(f".{owner.name.value}")]
        groups += [(file, _PARAMETERS) for file, _ in groups]
        return [item for item in self._forest.configured(param.name.value, place) if (item.file, item.group) in groups]

    def _group(self, node: cst.BaseExpression) -> str:
        """``train`` of ``config["train"]["workers"]`` and ``config.train.workers``, also with a name in between."""
        path = self._path(node) if isinstance(node, cst.Call) else None
        if path is not None:
            return path[0]
        base = self._base(node)
        if isinstance(base, cst.Name):
            bound = self._forest.names.bindings(base)
            base = bound[0].value if len(bound) == 1 and not bound[0].path else None
        return self._key(base) or "" if isinstance(base, (cst.Attribute, cst.Subscript, cst.Call)) else ""

    def _base(self, node: cst.BaseExpression) -> cst.BaseExpression | None:
        """The object that ``node`` reads a setting of."""
        read = self._forest.callee(node)
        return read.value if isinstance(read, (cst.Attribute, cst.Subscript)) else None

    def passed(self, call: cst.Call, name: str) -> Sequence[ConfigValue]:
        """What the files set a parameter to that ``call`` may get by ``**config["loader"]``, settings out of sight."""
        unpacked = next((item.value for item in call.args if item.star == "**" and self._is_loaded(item.value)), None)
        return () if unpacked is None else _of_group(self._set_to(name, unpacked), self._key(unpacked) or "")

    def _is_loaded(self, node: cst.BaseExpression, depth: int = _DEPTH) -> bool:
        """Whether ``node`` is a part of settings that come from out of sight."""
        if not isinstance(node, cst.Name):
            return self._key(node) is not None
        written = self._forest.fact(Configuration).step(node) if depth > 0 else None
        return written is not None and all(self._is_loaded(value, depth - 1) for value in written.values)

    def _set_to(self, key: str, node: cst.BaseExpression) -> Sequence[ConfigValue]:
        """What the files set a key to that ``node`` reads; empty if the program has another source for it."""
        if self._is_set(key, node):
            return ()
        place = self._forest.file_of_root[self._forest.tree.root_of(node)].place
        return self._forest.configured(key, place)

    def _nearly_all(self, answers: Sequence[bool]) -> bool:
        return bool(answers) and answers.count(False) * _ONE_IN <= len(answers)

    def text(self, key: str, values: Sequence[ConfigValue], written: re.Pattern[str] | None = None) -> str:
        """Where a key is set, as a text for a note: to what fits ``written``, else a number or True."""
        fits = (written or _SET).fullmatch
        usual = next((value for value in values if fits(value.text)), values[0])
        others = len({value.file for value in values}) - 1
        also = f" and set in {others} other file{'s' * (others > 1)}" if others else ""
        return f"`{key}` is {usual.text} in {usual.file}{also}"

    # -- what is read

    def _name(self, node: cst.BaseExpression) -> str:
        """The key by which ``node`` reads a setting, or the name of the parameter that it is."""
        node = unconverted(self._forest, node)
        return node.value if isinstance(node, cst.Name) else self._key(node) or ""

    def _key(self, node: cst.BaseExpression) -> str | None:
        """The key by which ``node`` reads a setting of an object of which nothing else is known."""
        if isinstance(node, cst.Attribute):
            return node.attr.value if self._may_be_loaded(node) else None
        if isinstance(node, cst.Subscript) and len(node.slice) == 1:
            index = node.slice[0].slice
            base, given = node.value, index.value if isinstance(index, cst.Index) else None
        elif isinstance(node, cst.Call) and isinstance(node.func, cst.Attribute) and node.func.attr.value == "get":
            last = 0 if self._path(node) is None else 1
            base, given = node.func.value, node.args[last].value if node.args and not node.args[last].star else None
        else:
            return None
        key = self._forest.value(given).constant if given is not None else None
        if not isinstance(key, str) or not key or self._forest.name_of(base) is not None:
            return None
        held = self._forest.value(base)
        if (held.kind not in _KINDS and held.sure) or self._is_given_by_callers(base):
            return None
        return None if self._forest.keywords.entries(base, key).values else key

    def _may_be_loaded(self, node: cst.Attribute) -> bool:
        """Whether an attribute is not seen to be that of a module, or one that a class of the program sets."""
        forest = self._forest
        if forest.name_of(node) is not None or forest.names.members(node) or forest.names.is_self(node.value):
            return False
        base = forest.value(node.value)
        is_guess = not base.sure and not isinstance(node.value, cst.Name)  # `cfg.dataloader.workers`
        if (base.kind not in _KINDS and not is_guess) or isinstance(base.definition, cst.FunctionDef):
            return False
        if base.definition is None:
            return True
        scopes = [forest.tree.scopes[item] for item in forest.definitions.lineage(base.definition)]
        return all(
            node.attr.value not in scope.bindings and node.attr.value not in scope.attributes for scope in scopes
        )

    def _is_given_by_callers(self, base: cst.BaseExpression) -> bool:
        """Whether a dictionary is that of keyword arguments: ``**options``."""
        bindings = self._forest.names.bindings(base) if isinstance(base, cst.Name) else []
        return any(binding.kind is BindingKind.STAR for binding in bindings)

    def _is_set(self, key: str, node: cst.BaseExpression) -> bool:
        """Whether the program has another source for a setting: an option, or an assignment on all paths.

        What a module assigns at its top level to an object that it creates empty is a default: `_C.WORKERS = 0`.
        """
        if self._forest.fact(Options).is_declared(key):
            return True
        return any(
            not (value is not None and self._forest.tree.within(node, value))
            and not self._forest.fact(Switches).conditional(statement)
            for value, statement in self._stores.get(key, ())
        )

    @cached_property
    def _stores(self) -> dict[str, list[tuple[cst.BaseExpression | None, cst.CSTNode]]]:
        """By key what the program assigns to settings, and the statements that do."""
        found: dict[str, list[tuple[cst.BaseExpression | None, cst.CSTNode]]] = {}
        for target, value, statement in self._forest.tree.stores:
            for key in self._stored_keys(target) if not self._is_default(target) else ():
                found.setdefault(key, []).append((value, statement))
        return found

    def _is_default(self, target: cst.CSTNode) -> bool:
        """Whether a module that is imported assigns to ``target`` before files are read: ``_C = CfgNode()``."""
        base, tree = base_of(target, PARTS), self._forest.tree
        bound = self._forest.names.bindings(base) if isinstance(base, cst.Name) else []
        made = bound[0].value if len(bound) == 1 and tree.function_of(target) is None else None
        is_empty = isinstance(made, cst.Call) and all(self._forest.code(item.value) == "{}" for item in made.args)
        return is_empty and self._forest.links.is_imported(tree.root_of(target))

    def _stored_keys(self, target: cst.CSTNode) -> Iterator[str]:
        if isinstance(target, cst.Attribute) and not self._forest.names.is_self(target.value):
            yield target.attr.value
        elif isinstance(target, cst.Subscript) and len(target.slice) == 1:
            index = target.slice[0].slice
            key = self._forest.value(index.value).constant if isinstance(index, cst.Index) else None
            if isinstance(key, str):
                yield key


def _of_group(values: Sequence[ConfigValue], group: str) -> Sequence[ConfigValue]:
    """Those of ``values`` that are in mappings under the key ``group``, or all if none is."""
    return [value for value in values if value.group == group] or values if group else values
