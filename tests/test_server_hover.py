"""What the language server shows of a rule where the pointer rests."""

from __future__ import annotations

from pathlib import Path

import pytest
import server_client
from server_client import editor, uri_of

from torchlint.rule import evidence
from torchlint.rule.evidence import Evidence
from torchlint.rule.registry import load_rules
from torchlint.server import findings

pytestmark = pytest.mark.filterwarnings("error::pytest_lsp.LspSpecificationWarning")

folder = server_client.folder


@pytest.mark.asyncio
async def test_a_finding_and_a_suppression_show_the_page_of_their_rule(folder: Path) -> None:
    uri = uri_of(folder)
    async with editor(folder) as client:
        client.open(uri, "LOUD = RISKY\nx = 1  # noqa: ZZ102, TL101\ny = 2\n")
        assert (await client.hover(uri, "OUD")).startswith("# ZZ101 loud-word")
        assert (await client.hover(uri, "ISKY")).startswith("# ZZ102 risky-word")
        assert (await client.hover(uri, "ZZ102")).startswith("# ZZ102 risky-word")
        page = await client.hover(uri, "TL101")
        assert page.startswith("# TL101 single-process-dataloader\n\n")
        assert "## Evidence" in page
        assert await client.hover(uri, "y = 2") == ""


@pytest.mark.parametrize("gpu", [True, False])
def test_the_page_of_a_rule_begins_with_its_benchmark_on_a_gpu(gpu: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    one = Evidence("a device", gpu, "2.11", "2026-01-31", "512 photos", "confirmed", "", 3.4, 3.3, 3.5)
    monkeypatch.setattr(evidence, "_shipped", lambda: {"single-process-dataloader": (one,)})
    (rule,) = (rule for rule in load_rules() if rule.code == "TL101")
    line = "**Benchmark:** 3.4x in the example program (a device, torch 2.11)\n\n" if gpu else ""
    assert findings._page(rule).startswith(f"# TL101 single-process-dataloader\n\n{line}{rule.page().summary}")
    assert "| 512 photos | confirmed | 3.4x [3.3, 3.5] | a device |" in findings._page(rule)
