"""Rules in preview run only where that is asked for."""

from __future__ import annotations

from typing import Any

import demo_pack
import pytest

import torchlint


@pytest.fixture(autouse=True)
def opted_is_in_preview(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(demo_pack.Opted, "preview", True)


def load(**values: Any) -> tuple[set[str], tuple[str, ...]]:
    """The rules that run, and the warnings."""
    settings = torchlint.load_settings(None, {"plugins": ["demo_pack"], **values})
    return {code for code in settings.codes if code.startswith("ZZ2")}, settings.warnings


def test_a_selected_rule_in_preview_does_not_run() -> None:
    assert load(select=["ALL"]) == ({"ZZ202"}, ())
    assert load(select=["ZZ2"]) == ({"ZZ202"}, ())
    for word in ("ZZ201", "opted-word"):
        assert load(select=[word]) == (set(), ("ZZ201 is not run: it is in preview; --preview runs it",))


def test_with_preview_it_runs_if_it_is_selected() -> None:
    assert load(select=["ZZ2"], preview=True) == ({"ZZ201", "ZZ202"}, ())
    assert load(preview=True) == ({"ZZ202"}, ())
