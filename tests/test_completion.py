"""``torchlint generate-shell-completion``: the scripts, in the real shells."""

from __future__ import annotations

import os
import shlex
import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from torchlint.commands import COMMANDS
from torchlint.commands.completion import SHELLS, path, script
from torchlint.completions import generate
from torchlint.settings.formats import FORMATS
from torchlint.settings.keys import KEYS
from torchlint.settings.settings import all_rules

RunTorchlint = Callable[..., "subprocess.CompletedProcess[str]"]
#: ``complete(folder, line)``: the candidates for the last word of a line that is typed in a folder.
Complete = Callable[[Path, str], "set[str]"]

RULES = {word for rule in all_rules() for word in (rule.code, rule.name)}


def needs(shell: str) -> pytest.MarkDecorator:
    """Skips where a shell is not installed; bash is, on every Linux."""
    there = shutil.which(shell) is not None or (shell == "bash" and sys.platform == "linux")
    return pytest.mark.skipif(not there, reason=f"{shell} is not installed")


def run_shell(folder: Path, *command: str, stdin: str | None = None) -> str:
    """What a shell prints, run without the user's own set-up."""
    environment = {**os.environ, "TERM": "dumb", "HOME": str(folder), "LC_ALL": "C.UTF-8"}
    done = subprocess.run(
        command,
        cwd=folder,
        env=environment,
        input=stdin,
        capture_output=True,
        encoding="utf-8",
        timeout=240,
        check=False,
    )
    assert done.stderr == ""
    return done.stdout


def complete_bash(folder: Path, line: str) -> set[str]:
    """Calls the completion function as bash does, since only a terminal makes bash do so."""
    words = shlex.split(line) + ([""] if line.endswith(" ") else [])
    last, previous = words[-1], words[-2]
    program = f"""
        eval "$(cat {shlex.quote(str(scripts(folder) / "bash"))})"
        COMP_WORDS=({" ".join(map(shlex.quote, words))}); COMP_CWORD={len(words) - 1}
        COMP_LINE={shlex.quote(line)}; COMP_POINT=${{#COMP_LINE}}
        function_name=$(complete -p torchlint | sed 's/.* -F \\([^ ]*\\) .*/\\1/')
        $function_name torchlint {shlex.quote(last)} {shlex.quote(previous)}
        printf '%s\\n' "${{COMPREPLY[@]}}"
    """
    return set(run_shell(folder, "bash", "--norc", "--noprofile", stdin=program).split())


def complete_fish(folder: Path, line: str) -> set[str]:
    """Asks fish itself."""
    program = f"source {scripts(folder) / 'fish'}; complete -C {shlex.quote(line)}"
    output = run_shell(folder, "fish", "--no-config", "-c", program)
    return {entry.partition("\t")[0] for entry in output.splitlines()}


def complete_zsh(folder: Path, line: str) -> set[str]:
    """Types the line and a tab into a zsh on a pseudo-terminal, and listens to the builtin that takes candidates."""
    program = f"""
        zmodload zsh/zpty
        zpty typed zsh -f -i
        zpty -w typed {shlex.quote(ZSH_SETUP.format(script=scripts(folder) / "zsh"))}
        zpty -r typed ignored '*READY*'
        zpty -w -n typed {shlex.quote(line)}$'\\t'
        zpty -w typed $'\\C-u' "print DO''NE"
        zpty -r typed ignored '*DONE*'
        zpty -d typed
        cat captured 2> /dev/null || true
    """
    (folder / "captured").unlink(missing_ok=True)
    output = run_shell(folder, "zsh", "-f", stdin=program)
    return set(output.split())


ZSH_SETUP = """
PS1=''; autoload -Uz compinit; compinit -u -D; eval "$(cat '{script}')"
compadd() {{
  if [[ ${{@[1,(i)(-|--)]}} == *-(O|A|D)\\ * ]]; then builtin compadd "$@"; return; fi
  local -a found; builtin compadd -A found "$@"; print -rl -- $found >> captured
  builtin compadd "$@"
}}
print REA''DY"""


def scripts(folder: Path) -> Path:
    """A folder with the scripts as they are printed, beside the one where the line is typed."""
    place = folder.parent / f"{folder.name}-scripts"
    if not place.is_dir():
        place.mkdir()
        names = [rule.code for rule in all_rules()] + [rule.name for rule in all_rules()]
        for shell in SHELLS:
            (place / shell).write_text(script(shell, names))
    return place


@pytest.fixture(
    params=[
        pytest.param(complete_bash, id="bash", marks=needs("bash")),
        pytest.param(complete_zsh, id="zsh", marks=needs("zsh")),
        pytest.param(complete_fish, id="fish", marks=needs("fish")),
    ]
)
def complete(request: pytest.FixtureRequest) -> Complete:
    """Each shell in turn."""
    function: Complete = request.param
    return function


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A folder with something to name."""
    (tmp_path / "train.py").write_text("")
    (tmp_path / "eval.py").write_text("")
    return tmp_path


def starting(words: set[str], start: str) -> set[str]:
    return {word for word in words if word.startswith(start)}


def test_a_command_or_a_path_comes_first(folder: Path, complete: Complete) -> None:
    first = complete(folder, "torchlint ")
    assert set(COMMANDS) <= first and {"train.py", "eval.py"} <= first
    assert complete(folder, "torchlint expl") == {"explain"}
    assert complete(folder, "torchlint tr") == {"train.py"}


def test_options_are_completed_with_and_without_check(folder: Path, complete: Complete) -> None:
    for command in ("", "check "):
        assert complete(folder, f"torchlint {command}--sel") == {"--select"}
        assert complete(folder, f"torchlint {command}--watch --show-fix") == {"--show-fixes"}
        assert complete(folder, f"torchlint {command}--no-resp") == {"--no-respect-gitignore"}


def test_rules_are_completed(folder: Path, complete: Complete) -> None:
    for command in ("", "check "):
        assert complete(folder, f"torchlint {command}--select TL1") == starting(RULES, "TL1")
        assert complete(folder, f"torchlint {command}--ignore missing-") == starting(RULES, "missing-")
        assert complete(folder, f"torchlint {command}--select A") == {"ALL"}
    assert complete(folder, "torchlint explain TL50") == starting(RULES, "TL50")
    assert complete(folder, "torchlint explain un") == starting(RULES, "un") != set()


def test_lists_of_rules_are_completed_after_a_comma(folder: Path, complete: Complete) -> None:
    found = complete(folder, "torchlint --select TL101,TL2")
    assert {word.removeprefix("TL101,") for word in found} == starting(RULES, "TL2") != set()


def test_values_are_completed(folder: Path, complete: Complete) -> None:
    assert complete(folder, "torchlint --output-format g") == starting(set(FORMATS), "g")
    assert complete(folder, "torchlint rules --output-format ") == {"text", "json"}
    assert complete(folder, "torchlint --sort g") == {"gain"}
    assert complete(folder, "torchlint --device ") == {"GPU", "CPU"}
    assert complete(folder, "torchlint config min") == starting(set(KEYS), "min")
    assert complete(folder, "torchlint generate-shell-completion ") == set(SHELLS)


def test_paths_are_completed(folder: Path, complete: Complete) -> None:
    for line in ("check ", "check eval.py ", "eval.py ", "--fix ", "--config ", "config --check ", "config --show "):
        assert complete(folder, f"torchlint {line}tr") == {"train.py"}, line


@pytest.mark.skipif(shutil.which("fish") is None, reason="fish is not installed")
def test_fish_completes_after_an_equals_sign(folder: Path) -> None:
    found = complete_fish(folder, "torchlint --select=TL101,TL2")
    assert found == {f"--select=TL101,{word}" for word in starting(RULES, "TL2")}


@pytest.mark.parametrize("shell", SHELLS)
def test_the_script_is_printed(tmp_path: Path, torchlint_in: RunTorchlint, shell: str) -> None:
    done = torchlint_in(tmp_path, "generate-shell-completion", shell)
    assert (done.returncode, done.stderr) == (0, "")
    assert set(done.stdout.replace('"', " ").replace("'", " ").split()) >= RULES
    assert "TORCHLINT-" not in done.stdout
    assert done.stdout.startswith(path(shell).read_text(encoding="utf-8").splitlines()[0])


@pytest.mark.parametrize("shell", SHELLS)
def test_the_scripts_are_up_to_date(shell: str) -> None:
    pytest.importorskip("shtab", reason="shtab, which makes the scripts, is not installed")
    assert path(shell).read_text(encoding="utf-8") == generate(shell), "run `python -m torchlint.completions`"


def test_other_shells_are_refused(tmp_path: Path, torchlint_in: RunTorchlint) -> None:
    done = torchlint_in(tmp_path, "generate-shell-completion", "tcsh")
    assert done.returncode == 2
    assert done.stderr.startswith("error: argument shell: invalid choice: 'tcsh'")
    assert done.stderr.count("\n") == 1


@pytest.mark.skipif(shutil.which("zsh") is None, reason="zsh is not installed")
@pytest.mark.parametrize("load", ["source <(cat {})", 'eval "$(cat {})"'])
def test_zsh_can_load_the_script_in_either_way(tmp_path: Path, load: str) -> None:
    script_file = shlex.quote(str(scripts(tmp_path) / "zsh"))
    program = f"autoload -Uz compinit; compinit -u -D; {load.format(script_file)}; print $_comps[torchlint]"
    assert run_shell(tmp_path, "zsh", "-f", "-c", program) == "_shtab_torchlint\n"


def test_fish_shows_no_help_next_to_each_value() -> None:
    """Without a description of its own, a value would get the help of its option."""
    for line in path("fish").read_text(encoding="utf-8").splitlines():
        if "-xka" in line:
            values = line.partition('-xka "')[2].partition('"')[0]
            assert values.startswith("(_torchlint_") or all(value.endswith("\\t") for value in values.split()), line
