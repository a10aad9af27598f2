"""Whether a file shows layers that multiply matrices; no heavy imports."""

from __future__ import annotations

from torchlint.model.semantics.knowledge import PRODUCTS
from torchlint.rule.sketch import Sketch
from torchlint.source.lexemes import code_of, names


def may_have_products(sketch: Sketch) -> bool:
    """Whether a network may have layers that multiply matrices: of a file that is analysed alone, it names them."""
    return not sketch.alone or not PRODUCTS.isdisjoint(names(code_of(sketch.text)))
