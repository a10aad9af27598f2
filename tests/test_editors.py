"""The pages for editors: their snippets are read from the pages and run in the real editors, where those are there."""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

if sys.version_info >= (3, 11):
    import tomllib
else:
    import tomli as tomllib

from conftest import RunTorchlint

ROOT = Path(__file__).resolve().parent.parent
PAGES = ROOT / "docs" / "editors"
EXTENSION = ROOT / "editors" / "vscode"
LIMIT = 240

SLOW = 'import torch\n\n\ndef make(n):\n    return torch.zeros(n, n).to("cuda")  # 中文 🎉\n'
FIXED = 'import torch\n\n\ndef make(n):\n    return torch.zeros(n, n, device="cuda")  # 中文 🎉\n'


def snippets(page: str, language: str) -> list[str]:
    """The code blocks of a page in one language."""
    text = (PAGES / page).read_text(encoding="utf-8")
    return re.findall(rf"^```{language}\n(.*?)^```$", text, re.MULTILINE | re.DOTALL)


@pytest.fixture
def work(tmp_path: Path) -> Path:
    """A project with a file that has one finding, and beside it a ``torchlint`` for the editor's PATH."""
    project = tmp_path / "project"
    project.mkdir()
    (project / "pyproject.toml").write_text("[project]\nname = 'slow'\nversion = '1'\n")
    (project / "slow.py").write_text(SLOW, encoding="utf-8")
    executable = tmp_path / "bin" / "torchlint"
    executable.parent.mkdir()
    executable.write_text(f'#!/bin/sh\nPYTHONPATH="{ROOT}" exec "{sys.executable}" -m torchlint "$@"\n')
    executable.chmod(0o755)
    return project


def run_editor(project: Path, *command: str) -> str:
    """Standard output of an editor that runs in the project, with settings of its own."""
    home = project.parent
    environment = {
        **os.environ,
        "PATH": os.pathsep.join([str(home / "bin"), os.environ["PATH"]]),
        "HOME": str(home),
        **{f"XDG_{name}_HOME": str(home / name.lower()) for name in ("CONFIG", "DATA", "STATE", "CACHE")},
    }
    done = subprocess.run(
        command,
        cwd=project,
        env=environment,
        stdin=subprocess.DEVNULL,
        capture_output=True,
        encoding="utf-8",
        timeout=LIMIT,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


def last_json(output: str) -> Any:
    """What the last line of an output that is JSON says."""
    lines = [line for line in output.splitlines() if line.startswith(("{", "["))]
    assert lines, output
    return json.loads(lines[-1])


class TestNeovim:
    """The client that is built into Neovim, with the page's snippets for versions before 0.11."""

    @pytest.fixture
    def neovim(self, work: Path) -> Any:
        """``neovim(script)`` opens the file, runs Lua when there are diagnostics, and gives what ``show`` was told."""
        pytest.importorskip("pygls", reason="the language server needs pygls")
        found = shutil.which("nvim")
        if found is None:
            pytest.skip("Neovim is not installed")
        version = subprocess.run([found, "--version"], capture_output=True, encoding="utf-8", check=True).stdout
        minor = int(re.match(r"NVIM v0\.(\d+)", version)[1]) if version.startswith("NVIM v0.") else 99  # type: ignore[index]
        current, older, fix_on_save = snippets("neovim.md", "lua")[:3]
        settings = work.parent / "config" / "nvim" / "init.lua"
        settings.parent.mkdir(parents=True)
        settings.write_text((current if minor >= 11 else older) + fix_on_save)

        def run(script: str) -> Any:
            (work.parent / "drive.lua").write_text(
                "local function show(value) io.stdout:write('\\n' .. vim.json.encode(value) .. '\\n') end\n"
                "vim.wait(60000, function() return #vim.diagnostic.get(0) > 0 end, 20)\n" + script
            )
            return last_json(
                run_editor(work, found, "--headless", "slow.py", "-S", str(work.parent / "drive.lua"), "-c", "qa!")
            )

        return run

    def test_findings_are_shown(self, neovim: Any) -> None:
        found = neovim("show(vim.diagnostic.get(0))")
        assert [(item["lnum"], item["col"], item["code"], item["source"]) for item in found] == [
            (4, 11, "TL206", "torchlint")
        ]

    def test_safe_fixes_are_applied_on_save(self, neovim: Any, work: Path) -> None:
        neovim("vim.cmd('write')\nshow({})")
        assert (work / "slow.py").read_text(encoding="utf-8") == FIXED

    def test_a_code_action_fixes_the_finding(self, neovim: Any) -> None:
        lines = neovim(
            "vim.ui.select = function(items, _, choose) choose(items[1], 1) end\n"
            "vim.api.nvim_win_set_cursor(0, { 5, 14 })\n"
            "local before = vim.api.nvim_buf_get_lines(0, 4, 5, true)[1]\n"
            "vim.lsp.buf.code_action()\n"
            "vim.wait(60000, function() return vim.api.nvim_buf_get_lines(0, 4, 5, true)[1] ~= before end, 20)\n"
            "show(vim.api.nvim_buf_get_lines(0, 0, -1, true))"
        )
        assert lines == FIXED.splitlines()

    def test_diagnostics_follow_typing(self, neovim: Any) -> None:
        left = neovim(
            "vim.api.nvim_buf_set_lines(0, 4, 5, true, { '    return n' })\n"
            "vim.wait(60000, function() return #vim.diagnostic.get(0) == 0 end, 20)\n"
            "show({ left = #vim.diagnostic.get(0) })"
        )
        assert left == {"left": 0}


class TestEmacs:
    """Eglot, Flymake and compilation mode, with the page's snippets."""

    WAIT = (
        "(defun wait-for (test)"
        '  (with-timeout (60 (error "nothing came")) (while (not (funcall test)) (accept-process-output nil 0.05))))'
        '(defun show (value) (princ (format "\\n%s\\n" (json-encode value))))'
        '(require \'json) (set-language-environment "UTF-8")'
    )
    FOUND = (
        "(show (vconcat (mapcar (lambda (d) (list :line (line-number-at-pos (flymake-diagnostic-beg d))"
        "  :column (save-excursion (goto-char (flymake-diagnostic-beg d)) (current-column))"
        '  :text (flymake-diagnostic-text d) :type (format "%s" (flymake-diagnostic-type d))))'
        "  (flymake-diagnostics))))"
    )

    @pytest.fixture
    def emacs(self, work: Path) -> Any:
        """``emacs(snippets, script)`` runs Lisp in a batch Emacs that has loaded the snippets."""
        found = shutil.which("emacs")
        if found is None:
            pytest.skip("Emacs is not installed")

        def run(settings: list[str], script: str, *, packages: bool = False) -> Any:
            (work.parent / "init.el").write_text("\n".join(settings))
            (work.parent / "drive.el").write_text(self.WAIT + script)
            activate = ["-f", "package-activate-all"] if packages else []
            load = ["-l", str(work.parent / "init.el"), "-l", str(work.parent / "drive.el")]
            return last_json(run_editor(work, found, "--batch", *activate, *load))

        return run

    @pytest.fixture
    def eglot(self, emacs: Any, work: Path) -> Any:
        """``eglot(script)`` runs Lisp in the buffer of a file that Eglot manages and has found something in."""
        pytest.importorskip("pygls", reason="the language server needs pygls")
        probe = ["emacs", "--batch", "-f", "package-activate-all", "--eval", "(require 'eglot)"]
        if subprocess.run(probe, capture_output=True, check=False).returncode:
            pytest.skip("Eglot is not installed")
        connect = (
            '(find-file "slow.py")'
            "(run-hooks 'post-command-hook)"  # what `eglot-ensure` waits for
            "(wait-for (lambda () (bound-and-true-p eglot--managed-mode)))"
            "(wait-for (lambda () (flymake-start) (flymake-diagnostics)))"
        )

        def run(script: str) -> Any:
            return emacs(snippets("emacs.md", "elisp")[:2], connect + script, packages=True)

        return run

    def test_eglot_shows_findings(self, eglot: Any) -> None:
        (found,) = eglot(self.FOUND)
        assert (found["line"], found["column"]) == (5, 11)
        assert "TL206" in found["text"]
        assert "warning" in found["type"]

    def test_eglot_applies_safe_fixes_on_save(self, eglot: Any, work: Path) -> None:
        eglot('(goto-char (point-max)) (insert "# more\\n") (save-buffer) (show [])')
        assert (work / "slow.py").read_text(encoding="utf-8") == FIXED + "# more\n"

    def test_eglot_saves_when_there_is_nothing_to_fix(self, eglot: Any, work: Path) -> None:
        eglot('(erase-buffer) (insert "n = 1\\n") (save-buffer) (show [])')
        assert (work / "slow.py").read_text(encoding="utf-8") == "n = 1\n"

    def test_flymake_shows_findings_of_an_unsaved_buffer(self, emacs: Any, work: Path) -> None:
        (found,) = emacs(
            snippets("emacs.md", "elisp")[2:3],
            '(find-file "slow.py") (goto-char (point-min)) (insert "\\n")'
            "(flymake-start) (wait-for (lambda () (flymake-diagnostics)))" + self.FOUND,
        )
        assert (found["line"], found["column"], found["type"]) == (6, 11, ":warning")
        assert found["text"].startswith("TL206 ")

    def test_compilation_mode_finds_the_places(self, emacs: Any) -> None:
        (line,) = snippets("emacs.md", "text")
        command = line.split(" RET ")[1]
        place = emacs(
            [],
            f"(compile {json.dumps(command)})"
            '(wait-for (lambda () (not (get-buffer-process "*compilation*"))))'
            "(next-error)"
            "(set-buffer (window-buffer))"
            "(show (list :file (buffer-name) :line (line-number-at-pos) :column (current-column)))",
        )
        assert place == {"file": "slow.py", "line": 5, "column": 11}


class TestPages:
    """What can be said of the pages for editors that cannot be run here."""

    @pytest.mark.parametrize("page", sorted(path.name for path in PAGES.glob("*.md")))
    def test_json_and_toml_are_valid(self, page: str) -> None:
        for text in snippets(page, "json"):
            json.loads(text)
        for text in snippets(page, "toml"):
            tomllib.loads(text)

    @pytest.mark.parametrize("page", sorted(path.name for path in PAGES.glob("*.md")))
    def test_each_page_states_whether_it_was_tested(self, page: str) -> None:
        text = (PAGES / page).read_text(encoding="utf-8")
        assert re.search(r"torchlint's tests run|was tested in|have not been tested", " ".join(text.split()))

    def test_helix_starts_the_server_that_the_language_names(self) -> None:
        server, configuration, fix_on_save, _ = map(tomllib.loads, snippets("helix.md", "toml"))
        assert server["language-server"]["torchlint"] == {"command": "torchlint", "args": ["server"]}
        assert server["language"] == [{"name": "python", "language-servers": ["torchlint"]}]
        assert fix_on_save["language"][0]["code-actions-on-save"] == ["source.fixAll.torchlint"]
        assert set(configuration["language-server"]) == {"torchlint"}

    def test_the_settings_shown_select_an_opt_in_rule(self, work: Path, torchlint_in: RunTorchlint) -> None:
        listed = json.loads(torchlint_in(work, "rules", "--output-format", "json").stdout)
        optional = {rule["code"] for rule in listed if rule["default"] != "on"}
        named = {
            code
            for page in PAGES.glob("*.md")
            for codes in re.findall(r"extend-select\W+((?:TL\d+\W*)+)", page.read_text(encoding="utf-8"))
            for code in re.findall(r"TL\d+", codes)
        }
        assert named
        assert named <= optional

    def test_pycharm_s_output_filter_matches_whole_paths(self, work: Path, torchlint_in: RunTorchlint) -> None:
        text = (PAGES / "pycharm.md").read_text(encoding="utf-8")
        assert set(re.findall(r"\| Output filters.*?\| `(.*?)` \|", text)) == {"$FILE_PATH$:$LINE$:$COLUMN$"}
        assert set(re.findall(r"\| Working directory \| `(.*?)` \|", text)) == {"$PyInterpreterDirectory$"}
        (arguments,) = re.findall(r"\| Arguments \| `(--output-format.*?)` \|", text)
        file = str(work / "slow.py")
        words = [word.strip('"').replace("$FilePath$", file) for word in arguments.split()]
        done = torchlint_in(work.parent / "bin", *words)
        assert re.findall(r"^(.+?):(\d+):(\d+)", done.stdout, re.MULTILINE) == [(file, "5", "12")]


class TestExtension:
    """The VS Code extension; its own tests run under Node.js."""

    def test_the_page_tells_of_every_setting(self) -> None:
        manifest = json.loads((EXTENSION / "package.json").read_text(encoding="utf-8"))
        page = (PAGES / "vscode.md").read_text(encoding="utf-8")
        for setting in manifest["contributes"]["configuration"]["properties"]:
            assert f"`{setting}`" in page

    def test_the_lock_file_names_no_registry(self) -> None:
        lock = json.loads((EXTENSION / "package-lock.json").read_text(encoding="utf-8"))
        assert not [name for name, package in lock["packages"].items() if "resolved" in package]
