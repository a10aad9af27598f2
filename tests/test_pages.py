"""A rule's page: the example as a diff, the evidence as a table, links between rules."""

from __future__ import annotations

import pytest

from torchlint.output.pages import page, speedup
from torchlint.rule import Rule
from torchlint.rule.evidence import Evidence
from torchlint.rule.registry import load_rules
from validation.site import menu, rule_page, rules_index

MEASURED = Evidence("a | device", False, "2.13", "2026-01-31", "one", "confirmed", "", 3.44, 3.3, 3.5)


class Waits(Rule):
    """Something waits; see TL402 and `TL401`.

    ## Example
    ```python
    for batch in loader:
        wait(batch)
    ```

    ## Use instead
    ```python
    for batch in loader:
        go(batch)
    ```
    It need not.

    ## Fix safety
    Safe: nothing changes.
    """

    code = "ZZ901"
    name = "waits"
    demo = ("GPU",)


class Untold(Rule):
    """Nothing is told.

    ## Example
    None.

    ## Use instead
    Nothing.
    """

    code = "ZZ902"
    name = "untold"


def test_the_example_is_a_diff() -> None:
    section = page(Waits(), ()).partition("## Example\n\n")[2].partition("\n\n## ")[0]
    assert section == ("```diff\n  for batch in loader:\n-     wait(batch)\n+     go(batch)\n```\n\nIt need not.")
    assert "Use instead" not in page(Waits(), ())


def test_without_code_both_sections_stay() -> None:
    text = page(Untold(), ())
    assert "## Example\n\nNone.\n\n## Use instead\n\nNothing.\n" in text


@pytest.mark.parametrize("rule", load_rules(), ids=lambda rule: rule.code)
def test_the_diff_holds_both_sides_of_a_rules_example(rule: Rule) -> None:
    lines = page(rule, ()).partition("```diff\n")[2].partition("\n```")[0].splitlines()
    for heading, other in (("Example", "+"), ("Use instead", "-")):
        code = rule.page().sections[heading].partition("```python\n")[2].partition("\n```")[0]
        assert [line[2:] for line in lines if not line.startswith(other)] == code.splitlines()


def test_the_evidence_is_a_table_with_device_and_date() -> None:
    text = page(Waits(), [MEASURED])
    assert "| one | confirmed | 3.4x [3.3, 3.5] | a \\| device | 2.13 | 2026-01-31 |" in text
    assert "Default: on. Fix: safe. Not measured on a GPU yet." in text


def test_nothing_is_claimed_that_was_not_measured() -> None:
    assert "Speed-up: not measured yet." in page(Waits(), ())
    assert "## Evidence" not in page(Waits(), ())
    assert speedup(Waits(), ()) == "-"
    assert speedup(Waits(), [MEASURED]) == "3.4x, CPU"


def test_the_site_links_the_rules_that_a_page_names() -> None:
    text = rule_page(Waits(), (), (*load_rules(), Waits()))
    assert "see [TL402](TL402.md) and `TL401`." in text
    assert text.startswith("# ZZ901 waits\n")


def test_a_page_on_the_site_names_the_version_the_related_rules_and_the_files() -> None:
    rules = (*load_rules(), Waits())
    text = rule_page(Waits(), [MEASURED], rules).partition("## More about this rule\n\n")[2]
    assert "- Since torchlint 0.1.0.\n" in text
    assert "- Related rules: [TL401](TL401.md) missing-eval, [TL402](TL402.md) missing-no-grad.\n" in text
    assert "`fixtures/waits/`" in text
    assert "[Evidence](../evidence.md)" in text
    other = next(rule for rule in rules if rule.code == "TL402")
    assert "[ZZ901](ZZ901.md) waits" in rule_page(other, (), rules)


def test_the_list_of_rules_has_each_once_in_its_family() -> None:
    rules = load_rules()
    text = rules_index(rules, {"TL402": [MEASURED]})
    assert [text.count(f"[{rule.code}]({rule.code}.md)") for rule in rules] == [1] * len(rules)
    families = [part.partition("\n")[0] for part in text.split("\n## ")[1:]]
    assert len(families) == len(set(families)) == len({rule.family() for rule in rules})
    summary = next(rule for rule in rules if rule.code == "TL402").page().summary
    assert f"| [TL402](TL402.md) missing-no-grad | {summary} | 3.4x, CPU |" in text


def test_the_menu_is_replaced_between_its_marks() -> None:
    settings = 'a = [\n  # rules: made\n  "old",\n  # end of rules\n]\n'
    made = menu(settings, load_rules())
    assert made.startswith("a = [\n  # rules: made\n") and made.endswith("  # end of rules\n]\n")
    assert '"old"' not in made
    assert made.count('"rules/TL402.md"') == 1
    assert menu(made, load_rules()) == made
