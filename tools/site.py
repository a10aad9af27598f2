"""The documentation of each released version, as the release workflow publishes it.

``python -m tools.site build SITE`` builds the site with the version menu of its theme.
``python -m tools.site add SITE VERSION PAGES`` adds it as ``PAGES/VERSION``, and needs only the standard library.

In ``PAGES``, ``versions.json`` lists the versions for the menu, ``latest/`` is a copy of the newest one, and
``index.html`` leads there.
"""

from __future__ import annotations

import argparse
import json
import re
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent

#: The menu requests `versions.json`, which exists only where versions are published.
_MENU = '\n[project.extra.version]\nprovider = "mike"\n'
_REDIRECT = """\
<!doctype html>
<html lang="en">
<meta charset="utf-8">
<meta http-equiv="refresh" content="0; url=latest/">
<title>torchlint</title>
<a href="latest/">Documentation of torchlint</a>
</html>
"""
_VERSION = re.compile(r"(\d+)\.(\d+)\.(\d+)((?:a|b|rc)\d+)?")


def build(site: Path) -> None:
    """Build the site with the version menu, from a copy of the pages."""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        shutil.copytree(ROOT / "docs", folder / "docs")
        configuration = (ROOT / "zensical.toml").read_text(encoding="utf-8")
        (folder / "zensical.toml").write_text(configuration + _MENU, encoding="utf-8")
        subprocess.run([sys.executable, "-m", "zensical", "build", "--strict"], cwd=folder, check=True)
        shutil.copytree(folder / "site", site, dirs_exist_ok=True)


def add(site: Path, version: str, pages: Path) -> None:
    """Add or replace a version of the site. Raises ValueError unless it looks like ``1.2.3`` or ``1.2.3rc1``."""
    _order(version)
    _copy(site, pages / version)
    versions = sorted((path.name for path in pages.iterdir() if _VERSION.fullmatch(path.name)), key=_order)
    latest = next((name for name in reversed(versions) if name.replace(".", "").isdigit()), versions[-1])
    _copy(pages / latest, pages / "latest")
    menu = [
        {"version": name, "title": name, "aliases": ["latest"] if name == latest else []} for name in reversed(versions)
    ]
    (pages / "versions.json").write_text(json.dumps(menu, indent=2) + "\n", encoding="utf-8")
    (pages / "index.html").write_text(_REDIRECT, encoding="utf-8")
    (pages / ".nojekyll").touch()  # GitHub Pages serves the files as they are


def _order(version: str) -> tuple[object, ...]:
    """What versions are sorted by: a pre-release comes before its release."""
    found = _VERSION.fullmatch(version)
    if found is None:
        raise ValueError(f"not a version: {version}")
    *numbers, stage = found.groups()
    kind, number = (stage.rstrip("0123456789"), int(stage.lstrip("abrc"))) if stage else ("release", 0)
    return (*map(int, numbers), kind, number)


def _copy(source: Path, target: Path) -> None:
    if target.exists():
        shutil.rmtree(target)
    shutil.copytree(source, target)


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command."""
    parser = argparse.ArgumentParser(prog="python -m tools.site", description="Publish the documentation by version.")
    commands = parser.add_subparsers(dest="command", required=True)
    command = commands.add_parser("build", help="build the site with the version menu")
    command.add_argument("site", type=Path)
    command = commands.add_parser("add", help="add a built site to the published versions")
    command.add_argument("site", type=Path)
    command.add_argument("version")
    command.add_argument("pages", type=Path)
    given = parser.parse_args(arguments)
    if given.command == "build":
        build(given.site)
    else:
        try:
            add(given.site, given.version, given.pages)
        except ValueError as error:
            parser.error(str(error))
    return 0


if __name__ == "__main__":
    sys.exit(main())
