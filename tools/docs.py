"""``python -m tools.docs``: reports which pages no longer match the code; ``--update`` writes them again.

Covers the sample outputs and the screenshot of the handwritten pages, ``docs/settings.md``, ``docs/speed.md`` of the
benchmark, and all that ``python -m validation.report`` generates from the rules and the measurements.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from pathlib import Path

from benchmarks.speed import page as speed
from torchlint.commands import config as settings
from torchlint.settings.settings import all_rules
from validation.report import files as generated_files

from . import samples, screenshot
from .terminal import ROOT


def current_files() -> dict[Path, str]:
    """Each file that this command keeps, with the content that it should have."""
    made = dict(generated_files())
    made[ROOT / "docs" / "settings.md"] = settings.page(list(settings.entries(all_rules()).values()))
    for page in samples.SCENES:
        made[ROOT / page] = samples.refreshed(page)
    made[screenshot.PATH] = screenshot.svg()
    made |= speed.files(ROOT)
    return made


def is_current(path: Path, content: str) -> bool:
    """Whether a file has this content. Of the screenshot, only the text is compared: rich changes its markup."""
    if not path.is_file():
        return False
    text = path.read_text(encoding="utf-8")
    if path == screenshot.PATH:
        return screenshot.text_of(text) == screenshot.text_of(content)
    return text == content


def main(arguments: Sequence[str] | None = None) -> int:
    """Report or write; the exit status is 1 if a page was not up to date and is not written."""
    parser = argparse.ArgumentParser(prog="python -m tools.docs", description="Keep the documentation up to date.")
    parser.add_argument("--update", action="store_true", help="write the files that are not up to date")
    update: bool = parser.parse_args(arguments).update
    outdated = {path: content for path, content in current_files().items() if not is_current(path, content)}
    for path, content in outdated.items():
        if update:
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(content, encoding="utf-8", newline="\n")
        print(f"{'updated' if update else 'out of date'}: {path.relative_to(ROOT).as_posix()}")
    if not outdated:
        print("All pages are up to date.")
    elif not update:
        print("Run `python -m tools.docs --update`.")
    return 1 if outdated and not update else 0


if __name__ == "__main__":
    sys.exit(main())
