"""The results as a page: ``docs/evidence.md`` and its charts."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from torchlint import check_text
from torchlint.measure.expectation import DEVICE, Expectation
from torchlint.measure.figures import change_of, interval, mebibytes, metric_change, ratio, release, seconds
from torchlint.measure.intervals import PROCESS_PAIRS
from torchlint.measure.pairs import Pair
from torchlint.measure.results import Measurement, PairResult, Results, file_name
from torchlint.rule import Rule

from .chart import Bar, svg

INTRODUCTION = f"""\
# Evidence

A rule whose effect can be measured has two small programs in `fixtures/<rule>/`: `before.py`, which contains the
pattern, and `after.py`, with torchlint's fix or the change that the rule advises. `python -m validation` runs the two
in separate processes at the same time and samples them in turn, until the interval is narrow or the time is up. A run
is timed from an idle device to an idle device, after a warm-up that ends when the times are stable.

- **speed-up**: the median time before the fix divided by the median time after it, with a 95 % interval. From one pair
  of processes it is a bootstrap interval, which contains the noise within them (93 to 95 % in simulations). Near 1 it
  comes from {PROCESS_PAIRS} pairs of processes (Student's t on the logarithms of their ratios), because one program
  runs a percent or so faster or slower from one process to the next.
- **confirmed**: the whole interval is above 1.02, or the count that the rule is about decreased. **slower**: the whole
  interval is below 0.98. **no effect**: the whole interval is between 0.95 and 1.05. **differs**: the two programs do
  not compute the same. **not measured**: there is no figure, the interval is inconclusive, or measurements disagree.
- **stale**: the programs have changed since they were measured.

This page is generated from `validation/results/`. The first of these commands measures, on a machine with a GPU, torch
and rich. The second generates the page, where torchlint is installed:

```console
python -m validation --device cuda
python -m validation.report
```
"""

NO_GPU = """\
**There are no measurements on a GPU yet.** All figures below come from a CPU, where only some of the rules have an
effect, and not the same one as on a GPU.
"""

ONE_CORE = """\
Here torch computes on one core, in place of a GPU; the other cores are for worker processes. Autocast for CUDA and
pinned memory have no effect on a CPU, and worker processes are faster only if loading is expensive. A program that is
faster with these on a GPU may be slower on a CPU.
"""

PROGRAMS = """\
### Whole programs

Complete training and inference programs, in `validation/programs/`. `after.py` is the output of
`torchlint --fix --unsafe-fixes` for `before.py` with the default rules. On a CPU, some programs are slower after the
fixes: fixes such as autocast for CUDA only help on a GPU.
"""

CONTROLS = """\
### Controls: a program against itself

Both sides run the same program, so the true ratio is 1. An interval that does not contain 1 shows the error of the
method on this device.

| program | size | ratio [95 % interval] |
|---|---|---|
"""

EXPECTED = """\
**expected** is the speed-up that was predicted before the first run on this device. **(wrong)**: the measured speed-up
is outside the prediction.
"""

CLAIMS_HEAD = """\
## Claims of the source articles

torchlint's first rules come from articles that give these figures for an A100. The last column gives the measurement on
a GPU of the most similar program.

| technique | claimed, A100 | measured |
|---|---|---|
"""

#: Technique, the speed-up that the articles claim for it, the most similar pair.
CLAIMS = (
    ("worker processes for data loading", "3.7x", "single-process-dataloader"),
    ("automatic mixed precision", "2.1x", "missing-autocast"),
    ("`torch.compile`", "1.5x to 1.8x", "missing-compile"),
    ("BERT fine-tuning as a whole", "2.5x to 3x", "bert_finetuning"),
)


def picture(results: Results) -> str:
    """The file name of a device's chart."""
    return file_name(results.device).replace(".json", ".svg")


def chart(rules: Sequence[Rule], results: Results, pairs: Mapping[str, Pair]) -> str:
    """One device's results as SVG, with the number of pairs that were not measured there."""
    labels = {rule.name: f"{rule.code} {rule.name}" for rule in rules if rule.name in pairs}
    programs = {name: name for name, pair in pairs.items() if pair.kind == "program"}
    here = results.results
    timed, counted = [], []
    for group in (programs, labels):
        bars = [_bar(label, here[name], pairs[name]) for name, label in group.items() if name in here]
        timed.append([bar for bar in bars if not bar.count])
        counted += [bar for bar in bars if bar.count]
    known = {*labels, *programs}
    missing = len(known - set(here))
    note = f"{missing} of {len(known)} pairs were not measured on this device" if missing else ""
    headings = ("Whole programs", "Rules", "Judged by a count")
    return svg(f"{results.device}: speed-up after the fix", list(zip(headings, (*timed, counted), strict=True)), note)


def _bar(label: str, result: PairResult, pair: Pair) -> Bar:
    one = result.main
    if result.stale(pair):
        return Bar(label, one.label, "stale")
    return Bar(label, one.label, one.verdict, one.speedup, one.ci_low, one.ci_high, metric_change(result.metric, one))


def document(
    rules: Sequence[Rule],
    measured: Sequence[Results],
    pairs: Mapping[str, Pair],
) -> str:
    """The page."""
    codes = {rule.name: rule.code for rule in sorted(rules, key=lambda rule: rule.code)}
    gpus = [results for results in measured if results.environment["type"] == "cuda"]
    parts = [INTRODUCTION, *([] if gpus else [NO_GPU])]
    for results in measured:
        is_expected = results.device == DEVICE
        expected = {name: pairs[name].expected for name in results.results if is_expected and name in pairs}
        parts.append("\n".join(_device(results, codes, pairs, expected)) + "\n")
    parts.append(CLAIMS_HEAD + "\n".join(_claim(*claim, gpus, pairs) for claim in CLAIMS) + "\n")
    return "\n".join(parts)


#: By the name of a pair and the label of a size.
Expected = Mapping[str, Mapping[str, Expectation]]


def _device(results: Results, codes: Mapping[str, str], pairs: Mapping[str, Pair], expected: Expected) -> Iterator[str]:
    """The section of one device, line by line."""
    environment, here = results.environment, results.results
    yield f"## {results.device}\n"
    facts = [f"Torch {environment['torch']}", f"Python {environment['python']}", f"{environment['cores']} cores"]
    if environment["type"] == "cuda":
        facts += [f"CUDA {environment['cuda']}", f"driver {environment['driver']}", environment["cpu"]]
    yield f"{', '.join(facts)}.\n"
    if environment["type"] == "cpu":
        yield ONE_CORE
    yield f"![Speed-ups with their intervals on {results.device}](evidence/{picture(results)})\n"
    if expected:
        yield EXPECTED
    rules = [name for name in codes if name in here]
    programs = [name for name, pair in pairs.items() if pair.kind == "program"]
    if set(programs) & set(here):
        yield PROGRAMS
        last = ("peak memory", "difference of results (allowed)", "fixed findings")
        yield from _head(("program", "size", "throughput", "speed-up [95 % interval]"), last, expected)
        ranked = sorted((name for name in programs if name in here), key=lambda name: _rank(here[name], pairs[name]))
        yield from (_program_row(here[name], pairs[name], expected) for name in ranked)
        yield ""
    yield "### Rules\n"
    yield from _head(
        ("rule", "size", "time of a run", "speed-up [95 % interval]"), ("peak memory", "verdict"), expected
    )
    for name in rules:
        for one in here[name].measurements:
            label = f"[{codes[name]}](rules/{codes[name]}.md) {name}"
            yield _rule_row(label, here[name], one, pairs.get(name), expected)
    missing = [f"{code} {name}" for name, code in codes.items() if name in pairs and name not in here]
    missing += [name for name in programs if name not in here]
    if missing:
        yield f"\nNot measured on this device: {', '.join(missing)}."
    if expected:
        yield "\n### Wrong predictions\n"
        shown = [*((name, name) for name in programs), *((f"{codes[name]} {name}", name) for name in rules)]
        wrong = [
            line
            for label, name in shown
            if name in here
            for line in _wrong(label, here[name], pairs.get(name), expected)
        ]
        yield from wrong or ["None: each measured speed-up is within its prediction."]
    controls = [result for result in here.values() if result.kind == "control"]
    if controls:
        rows = [_row(result.name, one.label, _speedup(one)) for result in controls for one in result.measurements]
        yield f"\n{CONTROLS}" + "\n".join(rows)


def _head(first: Sequence[str], last: Sequence[str], expected: Expected) -> Iterator[str]:
    """The head of a table, with a column for the predictions if there are any."""
    columns = (*first, *(("expected",) if expected else ()), *last)
    yield _row(*columns)
    yield f"|{'---|' * len(columns)}"


def _rule_row(label: str, result: PairResult, one: Measurement, pair: Pair | None, expected: Expected) -> str:
    timed = "first run" if result.metric == "first run" else "time"
    return _row(
        label,
        one.label,
        change_of(one, timed, seconds),
        _speedup(one) if result.times(one) else "",
        *_expected_cell(result, one, pair, expected),
        change_of(one, "peak memory", mebibytes),
        _verdict(result, one, pair),
    )


def _program_row(result: PairResult, pair: Pair, expected: Expected) -> str:
    one = result.main
    found = check_text((pair.folder / "before.py").read_text(encoding="utf-8"))
    return _row(
        pair.name,
        one.label,
        _throughput(one, pair.unit),
        "stale" if result.stale(pair) else _speedup(one) or one.reason,
        *_expected_cell(result, one, pair, expected),
        change_of(one, "peak memory", mebibytes),
        f"{one.difference:.1g} ({one.tolerance:g})" if one.difference is not None else one.verdict,
        ", ".join(sorted({diagnostic.code for diagnostic in found if diagnostic.fix})),
    )


def _rank(result: PairResult, pair: Pair) -> tuple[bool, float]:
    """Confirmed results first, and among them the largest speed-up."""
    one = result.main
    return result.stale(pair) or one.verdict != "confirmed", -(one.speedup or 0)


def _expected_cell(result: PairResult, one: Measurement, pair: Pair | None, expected: Expected) -> list[str]:
    """``1.1x to 1.4x``, marked if it is wrong: the cell of a table that has the column."""
    if not expected:
        return []
    expectation = expected.get(result.name, {}).get(one.label)
    if expectation is None:
        return [""]
    said = _range(expectation)
    return [f"**{said} (wrong)**" if _is_wrong(result, one, pair, expectation) else said]


def _range(expectation: Expectation) -> str:
    return f"{expectation.low:g}x to {expectation.high:g}x"


def _is_wrong(result: PairResult, one: Measurement, pair: Pair | None, expectation: Expectation) -> bool:
    """Whether the measured speed-up is outside the prediction."""
    if one.speedup is None or not result.times(one) or result.stale(pair):
        return False
    return not expectation.low <= one.speedup <= expectation.high


def _wrong(label: str, result: PairResult, pair: Pair | None, expected: Expected) -> Iterator[str]:
    """The entries of a pair in the list of wrong predictions, one for each size."""
    for one in result.measurements:
        expectation = expected.get(result.name, {}).get(one.label)
        if expectation is not None and _is_wrong(result, one, pair, expectation):
            yield (
                f"- {label}, {one.label}: expected {_range(expectation)} ({expectation.reason}); "
                f"measured {_speedup(one)}."
            )


def _speedup(one: Measurement) -> str:
    """``3.4x [3.3, 3.5]``."""
    return f"{ratio(one.speedup)} {interval(one.ci_low, one.ci_high)}".strip()


def _throughput(one: Measurement, unit: str) -> str:
    """``72 → 89 images/s``."""
    rates = [side["items"] / side["time"] for side in (one.before, one.after) if {"items", "time"} <= set(side)]
    return " → ".join(f"{rate:,.0f}" if rate >= 10 else f"{rate:.2g}" for rate in rates) + f" {unit}/s" if rates else ""


def _verdict(result: PairResult, one: Measurement, pair: Pair | None) -> str:
    said = "; ".join(filter(None, (one.verdict, one.reason, metric_change(result.metric, one))))
    return f"stale ({said})" if result.stale(pair) else said


def _claim(technique: str, claimed: str, name: str, gpus: Sequence[Results], pairs: Mapping[str, Pair]) -> str:
    """A claim and the measurement of the most similar pair on each GPU."""
    shown = []
    for results in gpus:
        result = results.results.get(name)
        if result and result.main.speedup and not result.stale(pairs.get(name)):
            one, version = result.main, release(result.torch)
            shown.append(f"{_speedup(one)}, {name}, {results.device}, torch {version}")
    return _row(technique, claimed, "; ".join(shown) or "not measured yet")


def _row(*cells: str) -> str:
    return f"| {' | '.join(cell.replace('|', chr(92) + '|') for cell in cells)} |"
