from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING

from torchlint import edits
from torchlint.edits import Edits
from torchlint.rule import Applicability, Diagnostic, Fix, Note, Rule

from ._words import COMPILES

if TYPE_CHECKING:
    import libcst as cst

    from torchlint.model.module import Module
    from torchlint.model.syntax.scopes import Scope

    from ._sites import Compile


class CompileInHotPath(Rule):
    """`torch.compile` is called at every step, where one call is enough.

    ## What it does
    Flags `torch.compile(...)` inside `forward`, `training_step` or the `step` of an optimizer, and inside a loop over
    batches or steps, if its result is called right there. A function that such a loop calls counts as part of the loop.

    Not flagged is `torch.compile` in a constructor, once per layer or per model, in a cached function or in a
    benchmark. Neither is a call behind a check whether the code is compiled already.

    ## Why it is slow
    The code is not compiled again each time: the compiled code is cached for the code object of the function. But every
    `torch.compile(...)` creates a new wrapper, whose first call must be set up before it finds the compiled code. That
    takes several times as long as a call of an existing wrapper. A function that is defined at every step may cost
    more: the values of its closure are also checked, and new values can compile another version.

    ## Example
    ```python
    def forward(self, x):
        return torch.compile(activation)(x)
    ```

    ## Use instead
    ```python
    compiled_activation = torch.compile(activation)


    def forward(self, x):
        return compiled_activation(x)
    ```

    ## Fix safety
    Unsafe: the call moves out of the loop, or to module level, where it runs once at import. The fix is offered if the
    compiled object exists there.

    ## When to ignore
    Ignore it if the function runs only a few times in the whole program.

    ## References
    - [torch.compile](https://docs.pytorch.org/docs/stable/generated/torch.compile.html)
    - [pytorch/ao#2500](https://github.com/pytorch/ao/issues/2500)
    """

    code = "TL502"
    name = "compile-in-hot-path"
    words = (
        "torch",
        ("torch.compile", "th.compile", "import compile"),
        COMPILES,
    )
    project_words = (("for ", "while ", "def forward(", "def __call__(", "_step(", "def step(", "custom_op"),)
    since = (2, 0)
    demo = ("GPU", "CPU")

    def check(self, module: Module) -> Iterator[Diagnostic]:
        from ._hot_path import repeated
        from ._sites import CompileSites

        moved: list[_Moved] = []
        for site in module.fact(CompileSites).for_speed:
            if site.in_place or not module.is_own(site.node):
                continue
            place = repeated(module, site)
            if place is None:
                continue
            where, why = place
            edited = _hoist(module, site, where, moved)
            yield self.diagnostic(
                module,
                site.node,
                "`torch.compile` is called at every step and creates a new wrapper each time",
                label="one call is enough",
                notes=(Note.at(module, where, f"runs at every {why}"),),
                fix=None
                if edited is None
                else Fix(
                    "call `torch.compile` once and reuse the result",
                    edited,
                    Applicability.UNSAFE,
                    "runs it before the loop or at import",
                ),
            )


@dataclass(frozen=True, eq=False)
class _Moved:
    """A compile that a fix assigns to a name, before a loop or at module level."""

    name: str
    scope: Scope  #: that gets the name
    code: str
    site: cst.CSTNode
    goal: cst.CSTNode  #: the statement before which it is inserted
    inserted: Edits


def _hoist(module: Module, site: Compile, where: cst.CSTNode, moved: list[_Moved]) -> Edits | None:
    """Move the compile to module level if that is possible, else before the loop."""
    from ._hot_path import step_around

    for place in dict.fromkeys(place for place in (step_around(module, site), where) if place is not None):
        edited = _hoist_out_of(module, site, place, moved)
        if edited is not None:
            return edited
    return None


def _hoist_out_of(module: Module, site: Compile, where: cst.CSTNode, moved: list[_Moved]) -> Edits | None:
    """Move the compile before the loop, or before the class or function at module level."""
    import libcst as cst

    if isinstance(site.target, cst.FunctionDef) or site.call is None or "\n" in module.code(site.call):
        return None
    goal = where if isinstance(where, (cst.For, cst.While)) else _outermost(module, where)
    if goal is None or not module.tree.within(site.node, goal) or not _exists_at(module, site.node, goal):
        return None
    gap = () if goal is where else ("", "")  # the empty rows before a class or function
    statement = module.tree.statement_of(site.node)
    above = module.tree.parent(site.node)
    if isinstance(above, cst.Call) and above.func is site.node and isinstance(site.target, (cst.Name, cst.Attribute)):
        for name in _new_names(site.target):
            inserted = _insert(module, site, name, goal, gap, moved) if name not in module.tree.names else None
            if inserted is not None:
                return inserted + edits.replace(module, site.node, name)
        return None
    if not isinstance(statement, cst.Assign) or statement.value is not site.node or len(statement.targets) != 1:
        return None
    target = statement.targets[0].target
    if not isinstance(target, cst.Name) or len(module.names.bindings(target)) != 1:
        return None
    if goal is not where and target.value in module.scope.bindings:
        return None
    deleted = edits.delete_statement(module, statement)
    inserted = _insert(module, site, target.value, goal, gap, moved) if deleted is not None else None
    return None if deleted is None or inserted is None else inserted + deleted


def _new_names(target: cst.Name | cst.Attribute) -> list[str]:
    """`compiled_act` for `ops.act`, and `compiled_ops_act` in case another fix takes that name."""
    from torchlint.model.syntax.dotted import dotted_name, last_name

    dotted = dotted_name(target)
    return [f"compiled_{text}" for text in (last_name(target), dotted.replace(".", "_") if dotted else None) if text]


def _insert(
    module: Module, site: Compile, name: str, goal: cst.CSTNode, gap: tuple[str, ...], moved: list[_Moved]
) -> Edits | None:
    """Assign the compile to `name` before `goal`; None if another fix uses the name for something else there.

    Fixes that assign the same compile share one statement.
    """
    scope, code = module.tree.scope_of(goal), module.code(site.node)
    inserted = edits.insert_before(module, goal, f"{name} = {code}", *gap)
    if inserted is None:
        return None
    for other in moved:
        if other.name != name:
            continue
        if other.scope is scope:
            if other.code != code:
                return None
            if module.tree.dominates(other.goal, goal):
                return other.inserted
        elif module.tree.within(site.node, other.scope.node) and module.tree.within(other.site, scope.node):
            return None  # the inner scope would hide the name of the outer one
    moved.append(_Moved(name, scope, code, site.node, goal, inserted))
    return inserted


def _outermost(module: Module, node: cst.CSTNode) -> cst.CSTNode | None:
    """The class or function at module level that contains ``node``."""
    import libcst as cst

    found = module.tree.top_level(node)
    return found if isinstance(found, (cst.FunctionDef, cst.ClassDef)) and not found.decorators else None


def _exists_at(module: Module, node: cst.CSTNode, goal: cst.CSTNode) -> bool:
    """Whether every name in ``node`` has its value before ``goal``."""
    import libcst as cst

    for part in module.tree.nodes_in(node):
        if not isinstance(part, cst.Name) or part.value in ("True", "False", "None"):
            continue
        bound = module.names.bindings(part)
        if not bound or any(module.tree.within(item.node, goal) for item in bound):
            return False
        outside = module.tree.function_of(goal) is None
        if not all(module.tree.dominates(item.node, goal) for item in bound) and (outside or len(bound) > 1):
            return False
    return True
