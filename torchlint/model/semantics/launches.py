"""Calls that run a function that they are given, in processes or for each item: which one, and what it gets."""

from __future__ import annotations

from collections.abc import Iterator
from functools import cached_property

import libcst as cst

from torchlint.model.semantics import knowledge
from torchlint.model.semantics.names import Names
from torchlint.model.syntax.calls import keywords_of
from torchlint.model.syntax.dotted import called_name, last_name
from torchlint.model.syntax.scopes import COMPREHENSIONS
from torchlint.model.syntax.tree import Tree

#: Classes whose objects run a function, ``target``.
_RUNNERS = frozenset({"Process", "Thread"})
_LIBRARIES = ("multiprocessing.", "torch.multiprocessing.", "threading.")
#: Functions of OpenMMLab that run a function with the items of lists, one after the other: ``map`` with keywords.
_MAPPING = ("multi_apply",)
#: What repeats the calls in it.
_REPEATING = (cst.For, cst.While, *COMPREHENSIONS)


class Launches:
    """Answers for one forest."""

    def __init__(self, tree: Tree, names: Names) -> None:
        self._tree = tree
        self._names = names

    def of(self, function: cst.CSTNode) -> cst.Call | None:
        """The call that starts processes which run what the expression ``function`` refers to; None without one.

        ``mp.spawn(function, args=(config,), nprocs=4)``, ``Process(target=function, args=(config,))``. Not one that a
        loop runs for each process: a caller in a loop would be one that runs the function again and again.
        """
        argument = self._tree.parent(function)
        call = self._tree.parent(argument) if isinstance(argument, cst.Arg) else None
        if not isinstance(call, cst.Call) or self._launched(call) is not function:
            return None
        home = self._tree.function_of(call)
        for above in self._tree.ancestors(call):
            if above is home:
                break
            if isinstance(above, _REPEATING):
                return None
        return call

    def given(self, call: cst.Call) -> tuple[list[cst.BaseExpression], dict[str, cst.BaseExpression]] | None:
        """What such a call passes on as it is, by position and by keyword; None if ``call`` is none."""
        if self._launched(call) is None:
            return None
        by_name = keywords_of(call)
        if called_name(call) in _MAPPING:
            return [], by_name
        rest = [item.value for item in call.args if item.keyword is None and not item.star]
        args = by_name.get("args", rest[1] if self.passes_rank(call) and len(rest) > 1 else None)
        positional = [item.value for item in args.elements] if isinstance(args, (cst.Tuple, cst.List)) else []
        kwargs = by_name.get("kwargs")
        entries = kwargs.elements if isinstance(kwargs, cst.Dict) else ()
        by_keyword = {
            str(item.key.evaluated_value): item.value
            for item in entries
            if isinstance(item, cst.DictElement) and isinstance(item.key, cst.SimpleString)
        }
        return positional, by_keyword

    def mapped(self, name: str) -> Iterator[tuple[cst.Attribute, cst.Call]]:
        """``self.f`` and the call of each ``multi_apply(self.f, xs, ys)``, for methods that are called ``name``."""
        for call in self._tree.calls_named(*_MAPPING):
            function = self._launched(call)
            if isinstance(function, cst.Attribute) and function.attr.value == name:
                yield function, call

    @property
    def spawned(self) -> list[cst.BaseExpression]:
        """What the calls of ``mp.spawn`` run."""
        return [function for call in self._spawning if (function := self._launched(call)) is not None]

    def passes_rank(self, call: cst.Call) -> bool:
        """Whether ``call`` is one of ``mp.spawn``, which passes the rank of the process before anything else."""
        return call in self._spawning

    @cached_property
    def _spawning(self) -> dict[cst.Call, None]:
        return dict.fromkeys(self._names.calls_of(knowledge.SPAWN))

    def _launched(self, call: cst.Call) -> cst.BaseExpression | None:
        """What ``call`` runs, in processes or for each item; None if it does neither."""
        if called_name(call) in _MAPPING:
            return call.args[0].value if call.args and call.args[0].keyword is None and not call.args[0].star else None
        if self.passes_rank(call):
            first = call.args[0] if call.args else None
            by_name = [item.value for item in call.args if item.keyword is not None and item.keyword.value == "fn"]
            return next(iter(by_name), first.value if first is not None and first.keyword is None else None)
        function = target_of(call)
        name = self._names.resolve(call.func) if function is not None else None
        of_context = name is None and isinstance(call.func, cst.Attribute)  # `get_context("spawn").Process(...)`
        if not of_context and not (name or "").startswith(_LIBRARIES):
            return None
        return function


def target_of(call: cst.Call) -> cst.BaseExpression | None:
    """The function that a process or thread runs, ``Process(target=function)``, by the name of its class alone."""
    if last_name(call.func) not in _RUNNERS:
        return None
    return next((item.value for item in call.args if item.keyword is not None and item.keyword.value == "target"), None)
