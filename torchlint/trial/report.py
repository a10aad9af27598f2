"""What a trial found, for the terminal."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence

from rich.table import Table

from torchlint.findings.conflicts import applicable
from torchlint.findings.diagnostic import Diagnostic
from torchlint.measure.figures import interval, mebibytes, ratio
from torchlint.trial.comparison import Comparison, Totals
from torchlint.trial.fixes import FixedFile, by_rule
from torchlint.trial.side import StepDefinition
from torchlint.trial.trial import Share

STEPS = {
    "optimizer": "optimizer step",
    "backward": "backward pass",
    "batch": "batch of a DataLoader",
    "forward": "forward pass",
}


def fixes_line(files: Sequence[FixedFile]) -> str:
    """``Fixes in 2 files: TL101 (1), TL402 (2)``."""
    rules = ", ".join(f"{code} ({count})" for (code, _), count in sorted(by_rule(files).items()))
    return f"Fixes in {len(files)} file{'s' if len(files) > 1 else ''}: {rules}."


def left_line(left: Sequence[Diagnostic]) -> str:
    """``Not fixed: TL107 (1), TL301 (1 with --unsafe-fixes).``, or nothing."""
    counts = Counter((one.code, applicable(one, unsafe=True)) for one in left)
    rules = [f"{code} ({count}{' with --unsafe-fixes' if unsafe else ''})" for (code, unsafe), count in counts.items()]
    return f"Not fixed: {', '.join(sorted(rules))}." if rules else ""


def outcome_line(found: Comparison) -> str:
    """The result in one sentence."""
    figure = f"{ratio(found.interval.ratio)} {interval(found.interval.low, found.interval.high)}"
    return {
        "faster": f"With the fixes, the script is faster: {figure}.",
        "slower": f"With the fixes, the script is slower: {figure}.",
        "no difference": f"The fixes make no difference to the speed of this script: {figure}.",
        "inconclusive": f"The measurement is inconclusive: {figure}; more --steps or a larger --budget may help.",
    }[found.outcome]


def comparison_table(found: Comparison, steps: StepDefinition) -> Table:
    """Both sides next to each other."""
    title = f"A step is one {STEPS[steps.kind]}; {found.steps} steps of each side"
    title += f", until {found.end}" if found.end else ""
    table = Table(title=title, title_justify="left")
    for column in ("", "as it is", "with the fixes", "before / after"):
        table.add_column(column)
    for row in _rows(found, steps):
        table.add_row(*row)
    return table


def _rows(found: Comparison, steps: StepDefinition) -> Iterator[tuple[str, str, str, str]]:
    before, after = found.before, found.after
    speedup = f"{ratio(found.interval.ratio)} {interval(found.interval.low, found.interval.high)}"
    yield "steps per second", _rate(before), _rate(after), speedup
    yield "waiting for batches", _waited(before), _waited(after), ""
    if steps.device == "cuda":
        yield "host synchronizations", _waits(before), _waits(after), ""
    else:
        yield "host synchronizations", "not applicable", "on a CPU", ""
    if before.peak_memory and after.peak_memory:
        change = ratio(before.peak_memory / after.peak_memory)
        yield "peak memory", mebibytes(before.peak_memory), mebibytes(after.peak_memory), change
    losses = found.losses
    if losses is not None:
        yield "mean loss, second half", f"{losses.before:.5g}", f"{losses.after:.5g}", losses.verdict


def _rate(side: Totals) -> str:
    return f"{side.rate:.3g}"


def _waits(side: Totals) -> str:
    return f"{side.synchronizations} a step"


def _waited(side: Totals) -> str:
    return f"{100 * side.waited:.0f} % of the time"


def shares_table(shares: Sequence[Share]) -> Table:
    """What each fix brings."""
    table = Table(title="Time without the fixes of one rule, over the time with all fixes", title_justify="left")
    for column in ("rule", "fixes", "ratio", ""):
        table.add_column(column)
    for share in shares:
        figure, said = "", share.error or "not measured: the budget is used up"
        if share.comparison is not None:
            found = share.comparison.interval
            figure = f"{ratio(found.ratio)} {interval(found.low, found.high)}"
            said = {"faster": "pays", "slower": "costs time"}.get(share.comparison.outcome, share.comparison.outcome)
        table.add_row(f"{share.code} {share.name}", str(share.count), figure, said)
    return table
