"""The repository's own files: workflows, issue forms and tasks are valid, and the pages that name them are right."""

from __future__ import annotations

import json
import re
from importlib.resources import files
from pathlib import Path
from typing import Any

import jsonschema
import pytest
from ruamel.yaml import YAML

ROOT = Path(__file__).resolve().parent.parent
GITHUB = ROOT / ".github"


def load(path: Path) -> Any:
    return YAML(typ="safe").load(path.read_text(encoding="utf-8"))


def errors(path: Path, schema: str) -> list[str]:
    """Why a schema that check-jsonschema contains refuses a file."""
    folder = files("check_jsonschema") / "builtin_schemas" / "vendor"
    rules = json.loads((folder / f"{schema}.json").read_text(encoding="utf-8"))
    validator = jsonschema.validators.validator_for(rules)(rules)
    return [error.message for error in validator.iter_errors(load(path))]


@pytest.mark.parametrize(
    ("pattern", "schema"),
    [
        ("workflows/*.yml", "github-workflows"),
        ("dependabot.yml", "dependabot"),
        ("ISSUE_TEMPLATE/config.yml", "github-issue-config"),
        ("ISSUE_TEMPLATE/*-*.yml", "github-issue-forms"),
    ],
)
def test_files_for_github_are_valid(pattern: str, schema: str) -> None:
    paths = sorted(GITHUB.glob(pattern))
    assert paths
    assert {path.name: errors(path, schema) for path in paths} == {path.name: [] for path in paths}


def test_there_is_a_form_for_each_kind_of_report() -> None:
    names = {load(path)["name"] for path in GITHUB.glob("ISSUE_TEMPLATE/*-*.yml")}
    assert names == {"False positive", "Missed pattern", "Wrong fix"}
    contributing = (ROOT / "CONTRIBUTING.md").read_text(encoding="utf-8")
    assert set(re.findall(r"^- \*\*(.*?)\*\*", contributing, re.MULTILINE)) == names


def test_a_release_is_published_without_a_password_and_by_the_job_that_builds_nothing() -> None:
    jobs = load(GITHUB / "workflows" / "release.yml")["jobs"]
    assert jobs["publish"]["needs"] == "build"
    assert jobs["publish"]["permissions"] == {"id-token": "write"}
    assert "id-token" not in jobs["build"]["permissions"]
    assert not any("run" in step for step in jobs["publish"]["steps"])
    assert jobs["build"]["permissions"] == {"contents": "read"}
    assert not any("pip" in step.get("run", "") for step in jobs["docs"]["steps"]), "it may push to the repository"
    assert "secrets" not in (GITHUB / "workflows" / "release.yml").read_text(encoding="utf-8")


def test_no_expression_becomes_part_of_a_script() -> None:
    for path in (GITHUB / "workflows").glob("*.yml"):
        for job in load(path)["jobs"].values():
            assert not any("${{" in step.get("run", "") for step in job["steps"]), path


def test_the_tasks_that_pages_name_exist() -> None:
    tasks = (ROOT / "noxfile.py").read_text(encoding="utf-8")
    sessions = set(re.findall(r'@nox\.session(?:\((?:name="(\w+)")?.*?\))?\ndef (\w+)', tasks))
    names = {given or function for given, function in sessions}
    used = set()
    for path in (ROOT / "CONTRIBUTING.md", GITHUB / "pull_request_template.md", GITHUB / "workflows" / "release.yml"):
        for group in re.findall(r"nox -s ((?:[a-z]+ ?)+)", path.read_text(encoding="utf-8")):
            used |= set(group.split())
    assert {"lint", "type", "test", "docs", "bench", "coverage", "build"} == names
    assert used <= names


def test_hooks_of_this_repository_run_tools_of_the_development_environment() -> None:
    development = (ROOT / "pyproject.toml").read_text(encoding="utf-8")
    (repository,) = load(ROOT / ".pre-commit-config.yaml")["repos"]
    for hook in repository["hooks"]:
        assert f'"{hook["entry"].split()[0]}' in development
