"""The comparison with other tools: what it says of torchlint's findings in its example is what torchlint finds."""

from __future__ import annotations

import re
from pathlib import Path

import torchlint
from torchlint.rule import Default
from torchlint.rule.registry import load_rules

PAGE = (Path(__file__).resolve().parent.parent / "docs" / "peers.md").read_text(encoding="utf-8")


def findings(folder: Path) -> dict[str, set[str]]:
    """By marker of the example (``P1``, ``L1``), the codes of the findings in its row."""
    found: dict[str, set[str]] = {}
    for name, code in re.findall(r"^`(\w+\.py)`:\n\n```python\n(.*?)^```", PAGE, re.MULTILINE | re.DOTALL):
        (folder / name).write_text(code, encoding="utf-8")
    for report in torchlint.check_paths([str(folder)], torchlint.load_settings(None, {})):
        for item in report.diagnostics:
            assert report.source is not None
            line = report.source.line(report.source.location(item.start)[0])
            marker = re.search(r"# ([PL]\d)\b", line)
            assert marker is not None, f"{report.path}: {item.code} in a row without a marker: {line}"
            found.setdefault(marker[1], set()).add(item.code)
    return found


def test_the_table_of_the_example_shows_what_torchlint_finds(tmp_path: Path) -> None:
    shown: dict[str, set[str]] = {}
    for marker, cell in re.findall(r"^\| ([PL]\d) [^|]*\| ([^|]*) \|", PAGE, re.MULTILINE):
        codes = set(re.findall(r"TL\d{3}", cell))
        assert codes or cell in ("missed", "silent"), cell
        shown[marker] = shown.get(marker, set()) | codes
    assert {marker: codes for marker, codes in shown.items() if codes} == findings(tmp_path)
    assert len(shown) == 18


def test_the_rules_that_it_names_exist_with_these_defaults() -> None:
    rules = {rule.code: rule for rule in load_rules()}
    codes = set(re.findall(r"\bTL\d{3}\b", PAGE)) - {"TL001", "TL002"}
    assert codes <= set(rules)
    for word, default in (("opt-in", Default.OPT_IN), ("information", Default.INFO)):
        named = re.findall(rf"(TL\d{{3}})(?: in part)? \({word}\)", PAGE)
        assert named
        assert {code: rules[code].default for code in named} == dict.fromkeys(named, default)
