"""The documentation that is published for each version."""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from ruamel.yaml import YAML

import torchlint
from tools import site

ROOT = Path(__file__).resolve().parent.parent


def publish(pages: Path, *versions: str) -> list[dict[str, object]]:
    """What the menu of versions contains after these versions were published, in this order."""
    pages.mkdir(exist_ok=True)
    for version in versions:
        built = pages.parent / f"built-{version}"
        (built / "rules").mkdir(parents=True)
        (built / "rules" / "index.html").write_text(version)
        site.add(built, version, pages)
    menu: list[dict[str, object]] = json.loads((pages / "versions.json").read_text())
    return menu


def test_versions_are_kept_beside_each_other(tmp_path: Path) -> None:
    pages = tmp_path / "pages"
    menu = publish(pages, "0.9.0", "0.10.0", "0.10.1rc1", "0.2.1")
    assert [entry["version"] for entry in menu] == ["0.10.1rc1", "0.10.0", "0.9.0", "0.2.1"]
    assert [entry["version"] for entry in menu if "latest" in str(entry["aliases"])] == ["0.10.0"]
    for version in ("0.9.0", "0.10.0", "0.10.1rc1", "0.2.1"):
        assert (pages / version / "rules" / "index.html").read_text() == version
    assert (pages / "latest" / "rules" / "index.html").read_text() == "0.10.0"
    assert (pages / ".nojekyll").exists()


def test_the_first_version_may_be_a_pre_release(tmp_path: Path) -> None:
    (entry,) = publish(tmp_path / "pages", "0.1.0rc1")
    assert entry["aliases"] == ["latest"]


def test_the_start_page_leads_to_the_latest_version(tmp_path: Path) -> None:
    publish(tmp_path / "pages", "0.1.0")
    text = (tmp_path / "pages" / "index.html").read_text()
    targets = re.findall(r'(?:url=|href=")([^"]+)"', text)
    assert targets == ["latest/", "latest/"]
    assert all((tmp_path / "pages" / target).is_dir() for target in targets)


def test_publishing_a_version_again_replaces_it(tmp_path: Path) -> None:
    pages = tmp_path / "pages"
    publish(pages, "0.1.0")
    (pages / "0.1.0" / "gone.html").touch()
    site.add(tmp_path / "built-0.1.0", "0.1.0", pages)
    assert not (pages / "0.1.0" / "gone.html").exists()
    assert not (pages / "latest" / "gone.html").exists()


@pytest.mark.parametrize("version", ["main", "v0.1.0", "../0.1.0", "0.1", "latest"])
def test_other_names_are_refused(tmp_path: Path, version: str, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as end:
        site.main(["add", str(tmp_path), version, str(tmp_path)])
    assert end.value.code == 2
    assert f"not a version: {version}" in capsys.readouterr().err
    assert list(tmp_path.iterdir()) == []


def test_the_version_of_torchlint_can_be_published(tmp_path: Path) -> None:
    (entry,) = publish(tmp_path / "pages", torchlint.__version__)
    assert entry["title"] == torchlint.__version__


@pytest.mark.skipif(sys.version_info < (3, 11), reason="Zensical needs Python 3.11")
def test_only_published_pages_request_the_list_of_versions(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    site.build(tmp_path)
    assert "No issues found" in capfd.readouterr().err
    page = (tmp_path / "index.html").read_text(encoding="utf-8")
    assert re.search(r'"version":\s*\{\s*"provider":\s*"mike"', page)
    assert "mike" not in (ROOT / "zensical.toml").read_text(encoding="utf-8")


def test_the_workflow_adds_a_version_to_the_branch(tmp_path: Path) -> None:
    """Run the step of the release workflow, for a first and a second version, with no package installed."""
    origin, checkout = tmp_path / "origin", tmp_path / "checkout"
    git = ["git", "-c", "user.name=a", "-c", "user.email=a@example.org", "-c", "init.defaultBranch=main"]
    subprocess.run([*git, "init", "-q", "--bare", str(origin)], check=True)
    workflow = YAML(typ="safe").load((ROOT / ".github" / "workflows" / "release.yml").read_text(encoding="utf-8"))
    script = workflow["jobs"]["docs"]["steps"][-1]["run"].replace("python3 ", f"{sys.executable} -S ")
    for version in ("0.1.0", "0.2.0"):
        subprocess.run([*git, "init", "-q", str(checkout)], check=True)
        subprocess.run([*git, "remote", "add", "origin", str(origin)], cwd=checkout, check=True)
        shutil.copytree(ROOT / "tools", checkout / "tools", ignore=shutil.ignore_patterns("__pycache__"))
        (checkout / "site").mkdir()
        (checkout / "site" / "index.html").write_text(version)
        subprocess.run([*git, "add", "tools"], cwd=checkout, check=True)
        subprocess.run([*git, "commit", "-qm", "The source"], cwd=checkout, check=True)
        environment = {**os.environ, "TAG": f"v{version}"}
        subprocess.run(["bash", "-e", "-c", script], cwd=checkout, env=environment, check=True)
        shutil.rmtree(checkout)
    listing = [*git, "ls-tree", "-r", "--name-only", "gh-pages"]
    shown = subprocess.run(listing, cwd=origin, capture_output=True, encoding="utf-8", check=True)
    assert shown.stdout.split() == [
        ".nojekyll",
        "0.1.0/index.html",
        "0.2.0/index.html",
        "index.html",
        "latest/index.html",
        "versions.json",
    ]
