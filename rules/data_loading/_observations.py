"""Observations of gym environments: NumPy arrays that replay memories collect."""

from __future__ import annotations

import re
from functools import cached_property

import libcst as cst

from torchlint.model.module import Module
from torchlint.model.syntax.binding_kinds import BindingKind
from torchlint.model.syntax.calls import Call
from torchlint.model.syntax.climbing import nearest
from torchlint.model.syntax.dotted import last_name
from torchlint.model.syntax.parameters import owner_of
from torchlint.model.syntax.scopes import COMPREHENSIONS, Binding

from ._array_list_words import OBSERVATION, OUTCOME

_CONVOLUTION = "torch.nn.Conv2d"
_MAKERS = ("gym.make", "gymnasium.make")
#: Environments whose observations are arrays.
_WITH_SHAPE = re.compile(
    r"(?:CartPole|Pendulum|MountainCar|MountainCarContinuous|Acrobot|LunarLander|LunarLanderContinuous|CarRacing"
    r"|BipedalWalker|BipedalWalkerHardcore|Ant|HalfCheetah|Hopper|Humanoid|HumanoidStandup|Walker2d|Swimmer|Reacher"
    r"|Pusher|InvertedPendulum|InvertedDoublePendulum|ALE/\w+|\w+NoFrameskip)-v\d"
)
#: How many names and calls an observation is followed through.
_DEPTH = 8


class Observations:
    """Answers for one file."""

    def __init__(self, module: Module) -> None:
        self._module = module
        self._tree = module.tree

    @cached_property
    def are_arrays(self) -> bool:
        """Whether the program uses environments of gym whose observations have a shape, and none that give numbers."""
        read = {node.attr.value for node in self._spaces}
        return "n" not in read and ("shape" in read or any(map(self._has_shape, self._module.calls(*_MAKERS))))

    def _has_shape(self, call: Call) -> bool:
        """``gym.make("CartPole-v1")``."""
        name = self._module.value(call.node.args[0].value).constant if call.node.args else None
        return isinstance(name, str) and _WITH_SHAPE.fullmatch(name) is not None

    @cached_property
    def _spaces(self) -> list[cst.Attribute]:
        """What is read of observation spaces: ``env.observation_space.shape``."""
        above = map(self._tree.parent, self._tree.attributes_named("observation_space"))
        return [node for node in above if isinstance(node, cst.Attribute)]

    @cached_property
    def _are_images(self) -> bool:
        """Whether observations are images: the program has convolutions, or a network out of sight gets their shape.

        Not if the program takes the length of a vector: ``env.observation_space.shape[0]``.
        """
        convolutions = [call.node for call in self._module.calls(_CONVOLUTION)] if self._spaces else []
        above = [(node, self._tree.parent(node)) for node in self._spaces]
        lengths = [owner for _, owner in above if isinstance(owner, cst.Subscript)]
        shapes = [owner for node, owner in above if isinstance(owner, cst.Arg) and node.attr.value == "shape"]
        return (bool(convolutions) or any(map(self._is_for_unseen, shapes))) and all(
            any(self._tree.within(length, call) for call in convolutions) for length in lengths
        )

    def _is_for_unseen(self, argument: cst.Arg) -> bool:
        """Whether a class or function gets ``argument`` that another file defines, which is not analysed with this."""
        call = self._tree.parent(argument)
        name = self._module.name_of(call.func) if isinstance(call, cst.Call) else None
        return (
            isinstance(call, cst.Call)
            and name is not None
            and not name.startswith(("torch.", "numpy.", "builtins.", "math."))
            and not self._module.definitions.called(call, self._module.values)
        )

    def is_list(self, node: cst.BaseExpression) -> bool:
        """Whether ``node`` is a tuple of the observations of a batch, by its name.

        ``states`` of ``states, actions, rewards = zip(*batch)``, and ``batch.state`` of
        ``batch = Transition(*zip(*transitions))``.
        """
        if isinstance(node, cst.Name):
            bound = self._bound(node)
            return bound is not None and len(bound.path) == 1 and self.is_unzipped(bound.value) and self.names(node)
        if isinstance(node, cst.Attribute) and isinstance(node.value, cst.Name):
            bound = self._bound(node.value)
            made = bound.value if bound is not None and not bound.path else None
            if not isinstance(made, cst.Call) or len(made.args) != 1 or made.args[0].star != "*":
                return False
            return self.is_unzipped(made.args[0].value) and self._is_field(node)
        return False

    def is_item(self, node: cst.BaseExpression) -> bool:
        """Whether ``node`` is an observation of a batch, in a comprehension over it, by its name.

        ``t.state for t in batch``, ``state for state, action, reward, _ in batch``,
        ``s for s in states if s is not None``.
        """
        comprehension = nearest(self._tree, node, *COMPREHENSIONS)
        source = getattr(comprehension, "for_in", None)
        if not isinstance(source, cst.CompFor) or source.inner_for_in is not None:
            return False
        if isinstance(node, cst.Attribute) and isinstance(source.target, cst.Name):
            return last_name(node.value) == source.target.value and self._is_field(node)
        if not isinstance(node, cst.Name):
            return False
        if isinstance(source.target, cst.Name):
            return node.value == source.target.value and self.is_list(source.iter)
        return OBSERVATION.fullmatch(node.value) is not None and self._has_outcome(source.target)

    def is_image(self, node: cst.BaseExpression) -> bool:
        """Whether ``node`` is what an environment gave, in a program that runs convolutions on it."""
        return self._are_images and self._is_observed(node, _DEPTH, set())

    def is_appended(self, node: cst.CSTNode) -> bool:
        """Whether ``node``, which is appended to a list, is an observation.

        ``s`` of ``s, action, reward, _ = transition``, or what an environment gave.
        """
        if isinstance(node, cst.Name) and self.names(node):
            return True
        return self._is_observed(node, _DEPTH, set())

    # -- names

    def _bound(self, name: cst.Name) -> Binding | None:
        reached = self._module.values.reaching.of(name)
        return reached[0] if len(reached) == 1 and reached[0].kind is BindingKind.ASSIGN else None

    def is_unzipped(self, value: cst.BaseExpression | None) -> bool:
        """``zip(*batch)``."""
        if not isinstance(value, cst.Call) or self._module.name_of(value.func) != "builtins.zip":
            return False
        return len(value.args) == 1 and value.args[0].star == "*"

    def names(self, name: cst.Name) -> bool:
        """Whether a name of an unpacked batch is that of observations, and others are those of actions or rewards."""
        bound = self._bound(name)
        if bound is None or not isinstance(bound.node, cst.Assign) or not OBSERVATION.fullmatch(name.value):
            return False
        return any(self._has_outcome(target.target) for target in bound.node.targets)

    def _has_outcome(self, target: cst.BaseExpression) -> bool:
        elements = target.elements if isinstance(target, (cst.Tuple, cst.List)) else ()
        return any(OUTCOME.fullmatch(last_name(item.value)) for item in elements)

    def _is_field(self, node: cst.Attribute) -> bool:
        """Whether an attribute is named for observations, where the same function reads actions or rewards as well."""
        function = self._module.function_of(node)
        if function is None or not OBSERVATION.fullmatch(node.attr.value):
            return False
        return any(OUTCOME.fullmatch(other.attr.value) for other in self._tree.attributes_in(function))

    # -- flow

    def _is_observed(self, node: cst.CSTNode | None, depth: int, seen: set[Binding]) -> bool:
        if depth <= 0:
            return False
        if isinstance(node, cst.IfExp):
            parts = [part for part in (node.body, node.orelse) if last_name(part) != "None"]
            return bool(parts) and all(self._is_observed(part, depth - 1, seen) for part in parts)
        if isinstance(node, cst.Name):
            reached = self._module.values.reaching.of(node)
            return bool(reached) and all(self._is_bound(item, depth - 1, seen) for item in reached)
        return self._is_of_environment(node, "reset")

    def _is_bound(self, binding: Binding, depth: int, seen: set[Binding]) -> bool:
        if binding in seen:
            return True  # another of its bindings decides
        seen.add(binding)
        if isinstance(binding.node, cst.Param):
            function = owner_of(self._tree, binding.node)
            if not isinstance(function, cst.FunctionDef):
                return False
            given = self._module.definitions.arguments_for(function, binding.node, self._module.values)
            if not given:
                return OBSERVATION.fullmatch(binding.name) is not None
            return all(self._is_observed(item, depth, seen) for item in given)
        if binding.kind is not BindingKind.ASSIGN:
            return False
        if binding.path:
            return binding.path == (0,) and self._is_of_environment(binding.value, "step", "reset")
        return self._is_observed(binding.value, depth, seen)

    def _is_of_environment(self, node: cst.CSTNode | None, *methods: str) -> bool:
        """``env.reset()``, ``self.envs.step(action)``."""
        if not isinstance(node, cst.Call) or not isinstance(node.func, cst.Attribute):
            return False
        return node.func.attr.value in methods and "env" in last_name(node.func.value).lower()
