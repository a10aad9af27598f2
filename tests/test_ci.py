"""What docs/ci.md and action.yml promise: samples are true, configurations valid, the action runs."""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys
from collections.abc import Callable
from importlib.resources import files
from pathlib import Path
from typing import Any

import jsonschema
import pytest
from ruamel.yaml import YAML

from torchlint.settings import formats

#: Together in one process: the installation that they share takes long.
pytestmark = pytest.mark.xdist_group("action")

ROOT = Path(__file__).resolve().parent.parent
PAGE = (ROOT / "docs" / "ci.md").read_text(encoding="utf-8")
RunTorchlint = Callable[..., "subprocess.CompletedProcess[str]"]


def blocks(language: str) -> list[str]:
    """The code blocks of the page in a language."""
    return re.findall(rf"^```{language}\n(.*?)^```$", PAGE, re.MULTILINE | re.DOTALL)


# --- samples


def without_measurements(text: str) -> str:
    """The text without what was measured, which is measured again from time to time."""
    return re.sub(r"measured: [^\"<\n]*", "measured", text)


@pytest.mark.parametrize("sample", blocks("console"), ids=lambda sample: str(sample).splitlines()[0])
def test_samples_are_what_torchlint_prints(tmp_path: Path, torchlint_in: RunTorchlint, sample: str) -> None:
    (code,) = blocks("python")
    (tmp_path / "train.py").write_text(code)
    command, _, expected = sample.partition("\n")
    dollar, program, *arguments = command.split()
    assert (dollar, program) == ("$", "torchlint")
    done = torchlint_in(tmp_path, *arguments)
    assert (done.returncode, done.stderr) == (1, "")
    printed = done.stdout.replace(str(tmp_path), "/home/you/project")
    assert without_measurements(printed) == without_measurements(expected)


def test_every_format_has_its_place_on_the_page() -> None:
    headings = re.findall(r"^### (.*)$", PAGE, re.MULTILINE)
    described = [name.strip() for heading in headings for name in heading.split(",")]
    assert sorted(described) == sorted([*formats.FORMATS, "Notebooks"])


# --- configurations


def refusal(schema: str, config: Any) -> str:
    """Why a schema that check-jsonschema brings refuses a configuration; empty if it does not."""
    folder = files("check_jsonschema") / "builtin_schemas" / "vendor"
    rules = json.loads((folder / f"{schema}.json").read_text(encoding="utf-8"))
    validator = jsonschema.validators.validator_for(rules)(rules)
    return "; ".join(error.message for error in validator.iter_errors(config))


def load(text: str) -> Any:
    return YAML(typ="safe").load(text)


CONFIGURATIONS = {block.splitlines()[0].removeprefix("# "): load(block) for block in blocks("yaml")}


@pytest.mark.parametrize(
    ("name", "schema"),
    [
        (".github/workflows/torchlint.yml", "github-workflows"),
        (".github/workflows/code-scanning.yml", "github-workflows"),
        (".gitlab-ci.yml", "gitlab-ci"),
        ("azure-pipelines.yml", "azure-pipelines"),
    ],
)
def test_configurations_are_valid(name: str, schema: str) -> None:
    config = CONFIGURATIONS[name]
    assert refusal(schema, config) == ""
    assert refusal(schema, {**config, "jobs": 1, "torchlint": 1, "steps": 1}) != ""


def test_the_workflows_give_the_action_inputs_that_it_has() -> None:
    inputs = set(load((ROOT / "action.yml").read_text())["inputs"])
    for name, config in CONFIGURATIONS.items():
        if ".github" in name:
            (used,) = [step for step in config["jobs"]["torchlint"]["steps"] if "torchlint" in step["uses"]]
            assert set(used["with"]) <= inputs
    assert set(re.findall(r"^\| `([\w-]+)` \|", PAGE, re.MULTILINE)) == inputs


def test_the_hooks_on_the_page_exist() -> None:
    ids = {hook["id"] for hook in load((ROOT / ".pre-commit-hooks.yaml").read_text())}
    (repo,) = CONFIGURATIONS[".pre-commit-config.yaml"]["repos"]
    assert {hook["id"] for hook in repo["hooks"]} <= ids


def test_commands_on_the_page_are_understood(project: Path, torchlint_in: RunTorchlint) -> None:
    (project / "a.py").write_text("x = LOUD\n")
    commands = re.findall(r"torchlint (--output-format \w+(?: --output-file [\w.]+)?)", PAGE.split("## GitLab")[1])
    assert len(commands) == 5
    for command in commands:
        assert torchlint_in(project, *command.split()).returncode == 1


# --- the action

ACTION = load((ROOT / "action.yml").read_text())
STEPS = {step["name"]: step for step in ACTION["runs"]["steps"]}
DEFAULTS = {name: given["default"] for name, given in ACTION["inputs"].items()}


def test_the_action_is_valid() -> None:
    assert refusal("github-actions", ACTION) == ""
    assert refusal("github-actions", {**ACTION, "runs": {"using": "composite"}}) != ""


def test_no_input_becomes_part_of_a_script() -> None:
    for step in STEPS.values():
        assert "${{" not in step["run"]
    assert STEPS["Run torchlint"]["env"] == {
        "SRC": "${{ inputs.src }}",
        "ARGS": "${{ inputs.args }}",
        "OUTPUT_FORMAT": "${{ inputs.output-format }}",
    }


def run_step(name: str, folder: Path, temporary: Path, **environment: str) -> subprocess.CompletedProcess[str]:
    """Run a step as GitHub's runner does it."""
    inherited = {key: value for key, value in os.environ.items() if not key.startswith(("PYTHON", "VIRTUAL_ENV"))}
    path = os.pathsep.join([str(Path(sys.executable).parent), os.environ["PATH"]])
    script = temporary / "step.sh"
    script.write_text(STEPS[name]["run"])
    return subprocess.run(
        ["bash", "--noprofile", "--norc", "-eo", "pipefail", str(script)],
        cwd=folder,
        env={**inherited, "PATH": path, "RUNNER_TEMP": str(temporary), "PYTHONIOENCODING": "utf-8", **environment},
        capture_output=True,
        encoding="utf-8",
        timeout=600,
        check=False,
    )


@pytest.fixture(scope="module")
def runner(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The runner's temporary folder, after the step that installs torchlint from a checkout of the action."""
    if shutil.which("bash") is None:
        pytest.skip("the action needs bash")
    temporary = tmp_path_factory.mktemp("runner temp")
    checkout = temporary / "action"
    checkout.mkdir()
    for name in ("torchlint", "rules", "fixtures"):
        shutil.copytree(ROOT / name, checkout / name, ignore=shutil.ignore_patterns("__pycache__"))
    for name in ("pyproject.toml", "setup.py", "MANIFEST.in", "README.md", "LICENSE", "CHANGELOG.md"):
        shutil.copy(ROOT / name, checkout)
    done = run_step("Install torchlint", temporary, temporary, ACTION_PATH=str(checkout))
    assert done.returncode == 0, done.stderr
    return temporary


def run_action(folder: Path, temporary: Path, **inputs: str) -> subprocess.CompletedProcess[str]:
    """Run the action with these inputs in a repository."""
    given = DEFAULTS | {name.replace("_", "-"): value for name, value in inputs.items()}
    environment = {"SRC": given["src"], "ARGS": given["args"], "OUTPUT_FORMAT": given["output-format"]}
    return run_step("Run torchlint", folder, temporary, **environment)


FOUND = "import torch\n\nwith torch.cuda.amp.autocast():\n    pass\n"


def test_the_action_annotates_and_fails(tmp_path: Path, runner: Path) -> None:
    (tmp_path / "a.py").write_text(FOUND)
    done = run_action(tmp_path, runner)
    assert (done.returncode, done.stderr) == (1, "")
    (line,) = done.stdout.splitlines()
    assert line.startswith(
        f"::warning title=torchlint (TL303),file={tmp_path}/a.py,line=3,col=6,endLine=3,endColumn=31::"
    )


def test_the_action_passes_where_nothing_is_found(tmp_path: Path, runner: Path) -> None:
    (tmp_path / "a.py").write_text("import torch\n")
    done = run_action(tmp_path, runner)
    assert (done.returncode, done.stdout, done.stderr) == (0, "", "")


def test_inputs_of_the_action(tmp_path: Path, runner: Path) -> None:
    for name in ("one dir", "two", "three"):
        (tmp_path / name).mkdir()
        (tmp_path / name / "a.py").write_text(FOUND)
    done = run_action(
        tmp_path,
        runner,
        src="one dir\ntwo\n\n",
        args="--exit-zero --output-file 'the report.txt' --exclude \"two/*\"",
        output_format="pylint",
    )
    assert (done.returncode, done.stdout) == (0, "")
    report = (tmp_path / "the report.txt").read_text()
    assert report == "one dir/a.py:3: [TL303] `torch.cuda.amp.autocast` is deprecated since torch 2.4\n"


@pytest.mark.parametrize("hostile", ['"; touch owned; "', "$(touch owned)", "`touch owned`", "a\nEOF\ntouch owned\n"])
def test_nothing_in_an_input_is_run(tmp_path: Path, runner: Path, hostile: str) -> None:
    (tmp_path / "a.py").write_text(FOUND)
    for inputs in ({"src": hostile}, {"args": hostile}, {"output_format": hostile}):
        assert run_action(tmp_path, runner, **inputs).returncode == 2
    assert {entry.name for entry in tmp_path.iterdir()} == {"a.py", ".torchlint_cache"}


def test_arguments_that_are_no_words_are_refused(tmp_path: Path, runner: Path) -> None:
    done = run_action(tmp_path, runner, args="--select 'TL1")
    assert (done.returncode, done.stdout) == (2, "::error title=torchlint::args: No closing quotation\n")


def test_the_action_imports_nothing_from_the_repository_it_checks(tmp_path: Path, runner: Path) -> None:
    (tmp_path / "a.py").write_text(FOUND)
    for name in ("torchlint", "libcst", "shlex", "os", "pip", "rich"):
        (tmp_path / f"{name}.py").write_text("open('owned', 'w')\n")
    assert run_action(tmp_path, runner).returncode == 1
    assert not (tmp_path / "owned").exists()
