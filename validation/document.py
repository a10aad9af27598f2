"""What was measured as a page: ``docs/evidence.md`` and its charts."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from torchlint import check_text
from torchlint.rule import Rule

from .chart import Bar, svg
from .pairs import Pair
from .results import Measurement, Result, Results, file_name
from .table import change_of, interval, mebibytes, metric_change, ratio, release, seconds

INTRODUCTION = """\
# Evidence

A rule whose effect can be measured has two small programs in `fixtures/<rule>/`: `before.py`, as people write it, and
`after.py`, which is what torchlint's own fix makes of it, or what the rule advises. `python -m validation` runs each in
a process of its own, both alive at once, and takes samples in turn until the interval is narrow or the time is over. A
run is timed from an idle device to an idle device, after a warm-up that ends when the times settle.

- **speed-up**: the median time before over the median time after, with its 95 % bootstrap interval.
- **confirmed**: the whole interval lies above 1.02, or the count that the rule is about went down. **slower**: the
  whole interval lies below 0.98. **no effect**: neither. **differs**: the two do not compute the same. **not
  measured**: no figure, or an interval too wide to deny a gain.
- **stale**: the programs have changed since they were measured.

This page is made from `validation/results/`. On a machine with a GPU, torch and rich, the first of these commands
measures; with torchlint installed, the second makes the page:

```console
python -m validation --device cuda
python -m validation.report
```
"""

NO_GPU = """\
**Nothing was measured on a GPU yet**, and no figure below is about one. A CPU can show only some of the rules, and
shows them at its own scale.
"""

ONE_CORE = """\
torch computes on one core here, which stands in for the device; the others are left to loaders, as they are beside a
GPU. Autocast and pinning, which are for CUDA, do nothing here, and worker processes pay off only where loading is dear:
programs that gain from those on a GPU may lose on a CPU.
"""

PROGRAMS = """\
### Whole programs

Programs as people write them, in `validation/programs/`. `after.py` is what `torchlint --fix --unsafe-fixes` makes of
`before.py` with the default rules, and nothing else.

| program | size | throughput | speed-up [95 % interval] | peak memory | results apart (allowed) | findings fixed |
|---|---|---|---|---|---|---|
"""

CLAIMS_HEAD = """\
## What the founding articles claim

The articles that torchlint's first rules come from give these figures for an A100. Beside each stands what was measured
here, on a GPU, for the nearest program.

| technique | claimed, A100 | measured here |
|---|---|---|
"""

#: Technique, what the articles claim for it, the pair of ours that is nearest.
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
    """One device's results as SVG; of the pairs that were not measured there the number, the page has their names."""
    labels = {rule.name: f"{rule.code} {rule.name}" for rule in rules if rule.name in pairs}
    programs = {name: name for name, pair in pairs.items() if pair.kind == "program"}
    here = results.results
    groups = [
        (heading, [_bar(label, here[name], pairs[name]) for name, label in group.items() if name in here])
        for heading, group in (("rules", labels), ("whole programs", programs))
    ]
    known = {*labels, *programs}
    missing = len(known - set(here))
    note = f"{missing} of {len(known)} were not measured on this device" if missing else ""
    return svg(f"Speed-up after torchlint's fix on {results.device}", groups, note)


def _bar(label: str, result: Result, pair: Pair) -> Bar:
    one = result.main
    if result.stale(pair):
        return Bar(label, one.label, "stale")
    return Bar(label, one.label, one.verdict, one.speedup, one.ci_low, one.ci_high, metric_change(result.metric, one))


def document(rules: Sequence[Rule], measured: Sequence[Results], pairs: Mapping[str, Pair]) -> str:
    """The page."""
    codes = {rule.name: rule.code for rule in rules}
    gpus = [results for results in measured if results.environment["type"] == "cuda"]
    parts = [INTRODUCTION, *([] if gpus else [NO_GPU])]
    parts += ["\n".join(_device(results, codes, pairs)) + "\n" for results in measured]
    parts.append(CLAIMS_HEAD + "\n".join(_claim(*claim, gpus, pairs) for claim in CLAIMS) + "\n")
    return "\n".join(parts)


def _device(results: Results, codes: Mapping[str, str], pairs: Mapping[str, Pair]) -> Iterator[str]:
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
    yield "### Rules\n"
    yield "| rule | size | time of a run | speed-up [95 % interval] | peak memory | verdict |"
    yield "|---|---|---|---|---|---|"
    for name, code in sorted(codes.items(), key=lambda item: item[1]):
        if name in here:
            for one in here[name].measurements:
                yield _rule_row(f"[{code}](rules/{code}.md) {name}", here[name], one, pairs.get(name))
    programs = [name for name, pair in pairs.items() if pair.kind == "program"]
    missing = [f"{code} {name}" for name, code in codes.items() if name in pairs and name not in here]
    missing += [name for name in programs if name not in here]
    if missing:
        yield f"\nNot measured on this device: {', '.join(missing)}."
    if set(programs) & set(here):
        yield f"\n{PROGRAMS}" + "\n".join(_program_row(here[name], pairs[name]) for name in programs if name in here)


def _rule_row(label: str, result: Result, one: Measurement, pair: Pair | None) -> str:
    timed = "first run" if result.metric == "first run" else "time"
    return _row(
        label,
        one.label,
        change_of(one, timed, seconds),
        _speedup(one),
        change_of(one, "peak memory", mebibytes),
        _verdict(result, one, pair),
    )


def _program_row(result: Result, pair: Pair) -> str:
    one = result.main
    found = check_text((pair.folder / "before.py").read_text(encoding="utf-8"))
    return _row(
        pair.name,
        one.label,
        _throughput(one, pair.unit),
        "stale" if result.stale(pair) else _speedup(one) or one.reason,
        change_of(one, "peak memory", mebibytes),
        f"{one.difference:.1g} ({one.tolerance:g})" if one.difference is not None else one.verdict,
        ", ".join(sorted({diagnostic.code for diagnostic in found if diagnostic.fix})),
    )


def _speedup(one: Measurement) -> str:
    """``3.4x [3.3, 3.5]``."""
    return f"{ratio(one.speedup)} {interval(one)}".strip()


def _throughput(one: Measurement, unit: str) -> str:
    """``72 → 89 images/s``."""
    rates = [side["items"] / side["time"] for side in (one.before, one.after) if {"items", "time"} <= set(side)]
    return " → ".join(f"{rate:,.0f}" if rate >= 10 else f"{rate:.2g}" for rate in rates) + f" {unit}/s" if rates else ""


def _verdict(result: Result, one: Measurement, pair: Pair | None) -> str:
    said = "; ".join(filter(None, (one.verdict, one.reason, metric_change(result.metric, one))))
    return f"stale ({said})" if result.stale(pair) else said


def _claim(technique: str, claimed: str, name: str, gpus: Sequence[Results], pairs: Mapping[str, Pair]) -> str:
    """What was measured beside a claim, for each GPU."""
    shown = []
    for results in gpus:
        result = results.results.get(name)
        if result and result.main.speedup and not result.stale(pairs.get(name)):
            one, version = result.main, release(result.torch)
            shown.append(f"{_speedup(one)}, {name}, {results.device}, torch {version}")
    return _row(technique, claimed, "; ".join(shown) or "not measured yet")


def _row(*cells: str) -> str:
    return f"| {' | '.join(cell.replace('|', chr(92) + '|') for cell in cells)} |"
