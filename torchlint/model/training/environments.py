"""Environments: whether a file trains an agent by its own experience, as in reinforcement learning."""

from __future__ import annotations

from functools import cached_property

import libcst as cst

from torchlint.model.module import Module
from torchlint.model.training.function_words import snake_case
from torchlint.model.training.gradients import Gradients

_LIBRARIES = frozenset(
    "gym gymnasium pettingzoo procgen stable_baselines3 atari_py envpool mujoco_py dm_control smac".split()
)
#: What an agent learns from: one of each.
_EXPERIENCE = (
    frozenset({"reward", "rewards", "rews", "td_error", "td_errors", "n_return"}),
    frozenset(
        "obs next_obs observation observations next_state next_states actions avail_actions available_actions "
        "n_actions num_actions action_dim".split()
    ),
    frozenset({"done", "dones", "terminated", "env", "envs"}),
)


class Environments:
    """Answers for one file."""

    def __init__(self, module: Module) -> None:
        self._module = module

    @cached_property
    def are_played(self) -> bool:
        """Whether the file trains an agent in an environment, or the files that call its training steps do.

        The networks of agents are small, and their steps launch-bound.
        """
        if any(self._module.imports(library) for library in _LIBRARIES) or self._has_experience(self._module.root):
            return True
        callers = self._callers
        return bool(callers) and all(map(self._has_experience, callers))

    @property
    def _callers(self) -> set[cst.CSTNode]:
        """The other files that call functions of the file in which losses are differentiated."""
        module = self._module
        steps = (module.function_of(call) for call in module.fact(Gradients).backwards if module.is_own(call))
        calls = (call for step in steps if step is not None for call in module.callers(step).calls)
        return {module.tree.root_of(call) for call in calls} - {module.root}

    def _has_experience(self, root: cst.CSTNode) -> bool:
        words = self._words(root)
        return all(words & signs for signs in _EXPERIENCE)

    def _words(self, root: cst.CSTNode) -> set[str]:
        """The names, attributes, keywords and strings of a file, in snake case."""
        tree = self._module.tree
        words = set(self._module.words_of(root))
        words.update(item.keyword.value for call in tree.calls_in(root) for item in call.args if item.keyword)
        words.update(function.name.value for function in tree.inside(root, cst.FunctionDef))
        words.update(item.value.strip("'\"") for item in tree.inside(root, cst.SimpleString))
        return set(map(snake_case, words))
