"""What a program declares as options: with argparse, absl and click, and as fields of classes; their defaults."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property

import libcst as cst

from torchlint.model.semantics.evaluator import Evaluator
from torchlint.model.semantics.guesses import SETTINGS
from torchlint.model.semantics.knowledge import Kind
from torchlint.model.semantics.names import Names
from torchlint.model.semantics.value import UNKNOWN, Device, Value, named_device
from torchlint.model.syntax.calls import keywords_of
from torchlint.model.syntax.dotted import last_name, last_part
from torchlint.model.syntax.literals import is_none
from torchlint.model.syntax.tree import Tree

#: What defines a flag of absl by its name and its default.
_FLAGS = frozenset(f"DEFINE_{kind}" for kind in ("bool", "boolean", "enum", "float", "integer", "string"))
#: How the names of classes end whose fields are settings.
_OF_SETTINGS = re.compile(r"(Args|Arguments?|Config(uration)?|Options?|Params|Parameters|Settings|[Hh]params|CFG|Cfg)$")
#: Calls that make a field of a dataclass or the like, and the place of the default among their arguments.
_FIELDS = {
    "dataclasses.field": None,
    "attr.ib": 0,
    "attr.field": None,
    "attrs.field": None,
    "pydantic.Field": 0,
    "typer.Option": 0,
}


@dataclass(frozen=True, eq=False)
class _Option:
    """An option of a parser."""

    node: cst.Call  #: that declares it
    default: cst.BaseExpression | None


class Parsers:
    """Answers for one forest."""

    def __init__(self, tree: Tree, names: Names, values: Evaluator) -> None:
        self._tree = tree
        self._names = names
        self._values = values

    def is_declared(self, name: str) -> bool:
        """Whether a parser has an option of this name."""
        return name in self._options

    def field_defaults(self, name: str) -> list[cst.BaseExpression | None]:
        """The defaults of the fields called ``name`` in classes of settings; None where one has none.

        None for a default that is made for each object, too.
        """
        return [default_of_field(self._names, item.value) for item in self._fields.get(name, ())]

    @cached_property
    def _fields(self) -> dict[str, list[cst.AnnAssign]]:
        """By name the annotated fields in classes of settings: ``class DataArguments: num_workers: int = 4``."""
        found: dict[str, list[cst.AnnAssign]] = {}
        for definition in self._tree.classes:
            if _OF_SETTINGS.search(definition.name.value):
                for name, bindings in self._tree.scopes[definition].bindings.items():
                    found.setdefault(name, []).extend(
                        item.node for item in bindings if isinstance(item.node, cst.AnnAssign)
                    )
        return found

    def defaults(self, name: str, node: cst.CSTNode) -> list[cst.BaseExpression | None]:
        """The defaults of the options called ``name`` that ``node`` may read; None where one declares none.

        They are those of the parsers in the file of ``node`` if it has some, else those of all parsers.
        """
        return [option.default for option in self._read_by(name, node)]

    def are_off(self, name: str, node: cst.CSTNode) -> bool:
        """Whether the options called ``name`` that ``node`` may read are switches that are off by default."""
        found = self._read_by(name, node)
        return bool(found) and all(map(self._is_off, found))

    def _is_off(self, option: _Option) -> bool:
        if option.default is not None:
            return self._values.of(option.default).constant is False
        actions = [item.value for item in option.node.args if item.keyword and item.keyword.value == "action"]
        return any(self._values.of(action).constant == "store_true" for action in actions)

    def _read_by(self, name: str, node: cst.CSTNode) -> list[_Option]:
        found = self._options.get(name, [])
        near = [option for option in found if self._tree.root_of(option.node) is self._tree.root_of(node)]
        return near or found

    @cached_property
    def _options(self) -> dict[str, list[_Option]]:
        found: dict[str, list[_Option]] = {}
        for call in (*self._calls("add_argument"), *self._calls_of_aliases):
            keywords = keywords_of(call)
            name = self._destination(call, keywords.get("dest"))
            if name is not None:
                found.setdefault(name, []).append(_Option(call, keywords.get("default")))
        for name, option in self._passed_on:
            found.setdefault(name, []).append(option)
        for call in self._calls("option"):
            if self._names.resolve(call.func) == "click.option":
                name, default = self._of_click(call)
                if name is not None:
                    found.setdefault(name, []).append(_Option(call, default))
        for call in self._calls(*_FLAGS):
            if (self._names.resolve(call.func) or "").startswith("absl.flags.") and len(call.args) > 1:
                flag = self._values.of(call.args[0].value).constant
                named = (item for item in call.args if item.keyword is not None and item.keyword.value == "default")
                given = next(named, call.args[1])
                if isinstance(flag, str) and not given.star:
                    found.setdefault(flag, []).append(_Option(call, given.value))
        for call in self._calls("set_defaults"):
            for item in call.args:
                if item.keyword is not None and item.keyword.value in found:
                    before = [option for option in found[item.keyword.value] if option.default is not None]
                    found[item.keyword.value] = [*before, _Option(call, item.value)]
        return found

    @property
    def _calls_of_aliases(self) -> list[cst.Call]:
        """``add("--workers", default=4)``, where ``add = parser.add_argument``."""
        tree = self._tree
        above = map(tree.parent, tree.attributes_named("add_argument"))
        named = [(item.targets[0].target, tree.root_of(item)) for item in above if isinstance(item, cst.Assign)]
        names = {(target.value, root) for target, root in named if isinstance(target, cst.Name)}
        calls = tree.calls_named(*sorted({name for name, _ in names}))
        return [
            call for call in calls if type(call.func) is cst.Name and (call.func.value, tree.root_of(call)) in names
        ]

    @property
    def _passed_on(self) -> Iterator[tuple[str, _Option]]:
        """By name the options that a function declares for its callers: ``add("--workers", 4)``."""
        for call in self._calls("add_argument"):
            function, first = self._tree.function_of(call), call.args[0].value if call.args else None
            if not isinstance(function, cst.FunctionDef) or not isinstance(first, cst.Name):
                continue
            params = [item.name.value for item in function.params.params]
            if first.value not in params:
                continue
            default = keywords_of(call).get("default")
            defaults = {item.name.value: item.default for item in function.params.params}
            for user in self._tree.calls_named(function.name.value):
                positional = [item.value for item in user.args if item.keyword is None and not item.star]
                given = {**defaults, **dict(zip(params, positional, strict=False)), **keywords_of(user)}
                flag = given.get(first.value)
                name = self._values.of(flag).constant if type(user.func) is cst.Name else None
                if isinstance(name, str) and name.startswith("-"):
                    yield _attribute_of(name), _Option(user, _of_caller(default, given))

    def of_command(self, function: cst.FunctionDef, name: str) -> list[cst.BaseExpression | None]:
        """The default of the option called ``name`` that a decorator of click declares for ``function``, in a list."""
        calls = [item.decorator for item in function.decorators if isinstance(item.decorator, cst.Call)]
        options = [self._of_click(call) for call in calls if self._names.resolve(call.func) == "click.option"]
        return [default for option, default in options if option == name]

    def _of_click(self, call: cst.Call) -> tuple[str | None, cst.BaseExpression | None]:
        """The name of the parameter, and the default, of ``click.option("-w", "--num-workers", default=4)``."""
        words = [self._values.of(item.value).constant for item in call.args if item.keyword is None and not item.star]
        names = [word for word in words if isinstance(word, str)]
        plain = next((word for word in names if not word.startswith("-")), None)
        longest = max(names, key=lambda word: len(word) - len(word.lstrip("-")), default="")
        default = (item.value for item in call.args if item.keyword is not None and item.keyword.value == "default")
        chosen = plain or longest.lstrip("-").partition("/")[0].replace("-", "_").lower()
        return chosen or None, next(default, None)

    def device(self, node: cst.Attribute) -> Value:
        """The CUDA device that ``args.device`` is by default; unknown for anything else.

        So of an option, and else of the fields of this name in classes of settings.
        """
        settings = last_name(node.value)
        if settings.lower().lstrip("_") not in SETTINGS and settings not in self._parsed:
            return UNKNOWN
        name = node.attr.value
        return self._cuda(self.defaults(name, node) if self.is_declared(name) else self.field_defaults(name))

    def devices_of_command(self, function: cst.FunctionDef, param: cst.Param) -> list[Value]:
        """The CUDA device that an option of click or typer gives a parameter by default, in a list."""
        declared = self.of_command(function, param.name.value)
        field = default_of_field(self._names, param.default)
        found = self._cuda([*declared, field if field is not param.default else None])
        return [found] if found else []

    def _cuda(self, defaults: list[cst.BaseExpression | None]) -> Value:
        """A CUDA device if all of the defaults that are known name one."""
        given = [self._values.of(value) for value in defaults if value is not None]
        if given and all(named_device(value) is Device.CUDA for value in given):
            return Value(Kind.DEVICE, device=Device.CUDA, sure=False)
        return UNKNOWN

    @cached_property
    def _parsed(self) -> frozenset[str]:
        """What the program calls the options that its parsers return: ``params = parser.parse_args()``.

        Functions of the program of this name count, too, and the first of two results: ``params, rest = ...``.
        """
        found: set[str] = set()
        for call in self._tree.calls_named("parse_args", "parse_known_args"):
            above = self._tree.parent(call)
            for target in (item.target for item in above.targets) if isinstance(above, cst.Assign) else ():
                first = target.elements[0].value if isinstance(target, cst.Tuple) else target
                found.add(last_name(first))
        return frozenset(found - {""})

    def _calls(self, *methods: str) -> list[cst.Call]:
        return [call for call in self._tree.calls_named(*methods) if type(call.func) is cst.Attribute]

    def _destination(self, call: cst.Call, given: cst.BaseExpression | None) -> str | None:
        """The attribute that argparse makes of it: ``dest``, or the first long option, or the first of all.

        Of ``--data.workers``, which jsonargparse and others read as ``args.data.workers``, the last part.
        """
        texts = [given] if given is not None else [item.value for item in call.args if item.keyword is None]
        names = [self._values.of(text).constant for text in texts]
        if not names or not all(isinstance(name, str) for name in names):
            return None
        words = [str(name) for name in names]
        chosen = next((word for word in words if word.startswith("--")), words[0])
        return _attribute_of(chosen)


def _attribute_of(flag: str) -> str:
    """``num_workers`` of ``--num-workers`` and ``--data.num-workers``."""
    return last_part(flag.lstrip("-").replace("-", "_"))


def _of_caller(
    node: cst.BaseExpression | None, given: Mapping[str, cst.BaseExpression | None]
) -> cst.BaseExpression | None:
    """What ``default`` or ``default if default is not None else other`` is for a call with these arguments."""
    if isinstance(node, cst.IfExp):
        return _of_caller(node.body, given) or _of_caller(node.orelse, given)
    value = given.get(node.value, node) if isinstance(node, cst.Name) else node
    return None if is_none(value) else value


def default_of_field(names: Names, value: cst.BaseExpression | None) -> cst.BaseExpression | None:
    """``4`` of ``dataclasses.field(default=4)``; None if it is made for each object."""
    called = names.resolve(value.func) if isinstance(value, cst.Call) else None
    if not isinstance(value, cst.Call) or called not in _FIELDS:
        return value
    place = _FIELDS[called]
    positional = [item.value for item in value.args if item.keyword is None and not item.star]
    by_keyword = (item.value for item in value.args if item.keyword is not None and item.keyword.value == "default")
    return next(by_keyword, positional[place] if place is not None and place < len(positional) else None)
