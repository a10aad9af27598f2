"""What is reported of inference: the statements that run a network without training it."""

from __future__ import annotations

from dataclasses import dataclass

import libcst as cst

from torchlint.model.training.phases import Phase


@dataclass(frozen=True, eq=False)
class InferenceSite:
    """Statements that run a network without training it."""

    forward: cst.Call  #: the first forward that is meant
    model: cst.BaseExpression  #: the network it runs
    node: cst.CSTNode  #: the function, loop or statement that is reported
    evidence: tuple[str, cst.CSTNode | None]  #: why it is inference: a text, and where that is seen
    phase: Phase | None = None  #: where the same statements train in another one
    unguarded: cst.Call | None = None  #: the call that records gradients, where others turn them off
