"""Programs of hypothesmith: all of Python's grammar, with code for PyTorch around it."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import hypothesmith
from hypothesis import HealthCheck, Phase, given, seed, settings
from hypothesis import strategies as st

from benchmarks.reliability.inputs import FOLDER
from benchmarks.reliability.invariants import Outcome, examined

#: What makes rules look at a file: above the generated code, and behind it.
ABOVE = "import torch\nfrom torch.utils.data import DataLoader\nmodel = torch.nn.Linear(9, 9).cuda()\n"
BEHIND = """
for images, labels in DataLoader(data):
    loss = model(images.cuda()).sum()
    loss.backward()
    model.zero_grad(set_to_none=False)
    total += loss.item()
"""

#: Programs that are made before they are reported.
_AT_ONCE = 200

#: By itself, below code for PyTorch, or with code for PyTorch around it.
PROGRAMS: st.SearchStrategy[str] = st.builds(
    lambda around, code: around[0] + code + around[1],
    st.sampled_from([(ABOVE, BEHIND), (ABOVE, BEHIND), (ABOVE, ""), ("", "")]),
    st.deferred(lambda: hypothesmith.from_grammar(auto_target=False)),  # its parser takes seconds to make
)


def asked_of(count: int, number: int, ask: Callable[[str], object]) -> None:
    """Give ``ask`` as many programs, the same for each number."""

    @seed(number)
    @settings(
        max_examples=count,
        deadline=None,
        database=None,
        phases=[Phase.generate],
        suppress_health_check=list(HealthCheck),
    )
    @given(PROGRAMS)
    def each(code: str) -> None:
        ask(code)

    each()


def outcomes(count: int, number: int) -> Iterator[Outcome]:
    """What comes of as many programs."""
    found: list[Outcome] = []

    def ask(code: str) -> None:
        outcome = examined(code.encode("utf-8", "surrogatepass"), f"{FOLDER}changed.py", f"hypothesmith {number}")
        if not outcome.violations:
            outcome.content = b""
        found.append(outcome)

    while count > 0:
        asked_of(min(count, _AT_ONCE), number, ask)
        yield from found
        count, number = count - len(found), number + 1
        found.clear()
