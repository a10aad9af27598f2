"""``torchlint measure``: times the example programs of rules on the user's device, or fixes in the user's script."""

from __future__ import annotations

import argparse
import importlib.util
import os
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

from torchlint.commands import CLEAN, Parser, UsageError, known_rules, report_warning, rules_named

if TYPE_CHECKING:
    from torchlint.measure.environment import Machine
    from torchlint.measure.measure import Task
    from torchlint.measure.pairs import Pair
    from torchlint.rule.rule import Rule


def parser() -> Parser:
    """Its arguments."""
    parser = Parser(
        prog="torchlint measure",
        usage="torchlint measure [OPTIONS] [RULE...]\n       torchlint measure [OPTIONS] -- python SCRIPT ...",
        description="Time the example programs of rules, before and after the fix, on this machine: "
        "the results come first wherever torchlint shows or uses a speed-up. With a command, time the script that it "
        "runs, as it is and with fixes, in copies of its project.",
    )
    parser.add_argument(
        "rule", nargs="*", metavar="RULE", help="codes, prefixes or names, such as TL101 (default: all)"
    )
    parser.add_argument(
        "--device",
        choices=("auto", "cuda", "cpu"),
        default="auto",
        help="the device to measure on (default: the GPU if there is one)",
    )
    parser.add_argument("--budget", type=float, metavar="SECONDS", help="stop after this time (script: 600)")
    parser.add_argument("--again", action="store_true", help="repeat measurements that have results")
    script = parser.add_argument_group("a script")
    script.add_argument("--unsafe-fixes", action="store_true", help="include fixes that may change results")
    for name, what in (
        ("--select", "rules whose fixes are measured: codes, prefixes, names or ALL"),
        ("--extend-select", "rules in addition to the selected ones"),
        ("--ignore", "rules whose fixes are not measured"),
    ):
        script.add_argument(name, action="append", metavar="RULES", help=f"{what} (comma-separated)")
    script.add_argument("--steps", type=_count, default=200, help="steps to compare (default: 200)")
    script.add_argument("--warmup", type=_count, default=20, help="steps before these (default: 20)")
    script.add_argument("--apply", action="store_true", help="apply the fixes that pay without asking")
    return parser


def _count(text: str) -> int:
    if not text.isdecimal():
        raise argparse.ArgumentTypeError(f"a number of steps, not `{text}`")
    return int(text)


def run(arguments: Sequence[str]) -> int:
    """Measure the example programs of some rules, or of all, or a script."""
    if os.name == "nt":
        raise UsageError("`torchlint measure` needs Linux or macOS")
    words = list(arguments)
    end = words.index("--") if "--" in words else len(words)
    options, command = parser().options(words[:end]), words[end + 1 :]
    if command:
        from torchlint.commands.measure_script import measure_script

        if options.rule:
            raise UsageError("rules are chosen with --select when a script is measured")
        if options.again or options.device != "auto":
            raise UsageError("--again and --device are for the example programs; a script chooses its device itself")
        return measure_script(options, command)
    if importlib.util.find_spec("torch") is None:
        raise UsageError("`torchlint measure` needs torch, which is not installed: pip install torch")
    return _measure_pairs(options)


def _measure_pairs(options: argparse.Namespace) -> int:
    from torchlint.measure.campaign import Campaign
    from torchlint.measure.environment import find_machine, shortage
    from torchlint.measure.pairs import pairs_in, rule_folder
    from torchlint.measure.results import file_name, load
    from torchlint.rule.evidence import own_folder

    pairs = {pair.name: pair for pair in pairs_in(rule_folder(), "rule")}
    rules = known_rules(options) if options.rule else []
    chosen = {name: pairs[name] for word in options.rule for name in _names_of(word, pairs, rules)} or pairs
    try:
        machine = find_machine(options.device)
    except ValueError as error:
        raise UsageError(str(error)) from error
    tasks = _tasks(list(chosen.values()), machine)
    path = own_folder() / file_name(machine.name)
    known = {}
    if path.exists():
        try:
            known = dict(load(path).results)
        except ValueError as error:
            report_warning(f"{error}; it is replaced")
    if missing := shortage():
        report_warning(missing)
    campaign = Campaign(machine.name, machine.environment, known, path)
    if not campaign.run(tasks, options.budget, resume=not options.again):
        report_warning("the budget is used up; the same command without --again measures the rest")
    return CLEAN


def _names_of(word: str, pairs: Mapping[str, Pair], rules: Sequence[Rule]) -> list[str]:
    """The names of those rules of a code, name or prefix that have a pair. Raises UsageError if none has."""
    meant = rules_named(word, rules)
    names = [rule.name for rule in meant if rule.name in pairs]
    if not names:
        raise UsageError(f"{', '.join(rule.code for rule in meant)} has no example program to measure")
    return names


def _tasks(pairs: Sequence[Pair], machine: Machine) -> list[Task]:
    """The pairs at their main sizes. Raises UsageError if none has an effect on the device."""
    from torchlint.measure.measure import Task

    tasks = []
    for pair in pairs:
        if machine.type in pair.sizes:
            label, size = next(iter(pair.sizes[machine.type].items()))
            tasks.append(Task(pair, label, size, machine.type))
    if not tasks:
        names = ", ".join(pair.name for pair in pairs)
        raise UsageError(f"no effect to measure on {machine.name}: {names}")
    return tasks
