"""Times `torchlint server` from a change in the editor to the diagnostics of the changed text.

    python -m benchmarks.server [FILE] [--edits 200] [--burst 5] [--project 100]

A client types single characters at places all over FILE (default: 1,000 lines made of the fixtures), each taken back by
the next change, and waits for the diagnostics after each. Then it types bursts, as fast as it can, and waits for the
diagnostics of the last character. For comparison new processes check the same text, without a server.

With --project, the file is one of three scripts in a project of so many files, all of whose modules they import.
"""

from __future__ import annotations

import argparse
import random
import re
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from benchmarks.lsp import Client

ROOT = Path(__file__).resolve().parent.parent
SEED = 7
#: The scripts of a project; the first is edited.
_SCRIPTS = ("train", "evaluate", "export")
_FUNCTION = re.compile(r"^def ([a-z]\w*)", re.MULTILINE)
#: How many new processes check the text.
_COLD_CHECKS = 5
#: What each of them does: it prints the seconds that a check takes after the rules are imported.
_COLD = """\
import sys, time
import torchlint
path, text = sys.argv[1], sys.stdin.read()
torchlint.check_text("import torch\\ntorch.compile(f)\\n")
start = time.perf_counter()
torchlint.check_text(text, path)
print(time.perf_counter() - start)
"""
#: A file that does not exist.
UNSAVED = Path("/tmp/edited.py")


class Editor(Client):
    """Edits one document."""

    def __init__(self, command: list[str], uri: str) -> None:
        super().__init__(command, "/")
        self.uri = uri
        self.version = 1

    def open(self, text: str) -> int:
        """Open the document; the number of its diagnostics."""
        self.send("initialize", {"processId": None, "rootUri": None, "capabilities": {}}, 1)
        self.receive()
        self.send("initialized", {})
        document = {"uri": self.uri, "languageId": "python", "version": self.version, "text": text}
        self.send("textDocument/didOpen", {"textDocument": document})
        return self.diagnostics()

    def change(self, row: int, column: int, end: int, text: str) -> None:
        """Replace some characters of a row."""
        self.version += 1
        edit = {"start": {"line": row, "character": column}, "end": {"line": row, "character": end}}
        changes = [{"range": edit, "text": text}]
        document = {"uri": self.uri, "version": self.version}
        self.send("textDocument/didChange", {"textDocument": document, "contentChanges": changes})

    def diagnostics(self) -> int:
        """Wait for the diagnostics of the newest text; their number."""
        while True:
            message = self.receive()
            if message.get("method") == "textDocument/publishDiagnostics":
                if message["params"]["uri"] == self.uri and message["params"].get("version") == self.version:
                    return len(message["params"]["diagnostics"])

    def close(self) -> int:
        """End the server; its exit status."""
        self.send("shutdown", None, 2)
        self.send("exit", None)
        return self.process.wait(10)


def text_of_fixtures(lines: int = 1000) -> str:
    """The programs that rules were made for, one behind the other in an order of chance."""
    programs = [path.read_text(encoding="utf-8") for path in sorted(ROOT.glob("fixtures/*/before.py"))]
    random.Random(SEED).shuffle(programs)
    rows: list[str] = []
    for program in programs:
        rows += [row for row in program.splitlines(keepends=True) if "from __future__" not in row]
        if len(rows) >= lines:
            break
    text = "".join(rows[:lines])
    while True:  # the last statement may have lost its end
        try:
            compile(text, "<text>", "exec")
            return text
        except SyntaxError:
            text = text[: text.rstrip("\n").rindex("\n") + 1]


def write_project(folder: Path, count: int) -> Path:
    """Write a project of `count` files; the script that is edited, of about 1,000 lines.

    Three scripts import most of the modules, and call a function of each; one module in four is a program of the
    fixtures, the others are modules of torchlint itself, which do not use torch.
    """
    (folder / ".git").mkdir()
    (folder / "parts").mkdir()
    programs = sorted(ROOT.glob("fixtures/*/before.py"))
    others = [path for path in sorted(ROOT.glob("torchlint/*/*.py")) if path.name != "__init__.py"]
    imports, uses = [], ['if __name__ == "__main__":\n']
    for index in range(count - len(_SCRIPTS)):
        paths = others if index % 4 else programs
        text = paths[index // 4 % len(paths)].read_text(encoding="utf-8")
        (folder / "parts" / f"part_{index}.py").write_text(text.partition("if __name__ ==")[0], encoding="utf-8")
        if paths is programs:
            imports.append(f"from parts.part_{index} import prepare as prepare_{index}, work as work_{index}\n")
            uses.append(f'    work_{index}(prepare_{index}("cuda"))\n')
        else:
            imports.append(f"import parts.part_{index} as part_{index}\n")
            uses += [f"    part_{index}.{name}()\n" for name in _FUNCTION.findall(text)[:1]]
    body = text_of_fixtures(1000 - len(imports) - len(uses)).replace("if __name__ ==", "if __file__ ==")
    for name in _SCRIPTS:
        text = "".join(imports) + (body if name == "train" else "") + "\n\n" + "".join(uses)
        (folder / f"{name}.py").write_text(text, encoding="utf-8")
    return folder / "train.py"


def places(text: str, count: int) -> list[tuple[int, int]]:
    """Rows and columns at which a letter can be typed: behind a letter of a word."""
    found = [
        (row, column)
        for row, line in enumerate(text.split("\n"))
        for column in range(1, len(line) + 1)
        if line.isascii() and line[column - 1].isalpha()
    ]
    return random.Random(SEED).choices(found, k=count)


def report(name: str, seconds: list[float]) -> None:
    """Print what a list of times comes to."""
    if len(seconds) < 2:
        return
    cuts = statistics.quantiles([1000 * one for one in seconds], n=100, method="inclusive")
    largest = 1000 * max(seconds)
    print(f"{name:28} p50 {cuts[49]:6.1f}  p95 {cuts[94]:6.1f}  p99 {cuts[98]:6.1f}  max {largest:6.1f} ms")


def main() -> int:
    """Run the benchmark."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("file", type=Path, nargs="?")
    parser.add_argument("--edits", type=int, default=200, help="characters typed, and as many taken back (default 200)")
    parser.add_argument("--burst", type=int, default=5, help="characters of a burst (default 5)")
    parser.add_argument("--project", type=int, default=0, metavar="COUNT", help="files of a project around the file")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        if options.project:
            options.file = write_project(Path(folder), options.project)
        return measure(options)


def _cold_check(path: Path, text: str) -> float:
    """The seconds that a check takes in a new process. Raises SystemExit if it fails."""
    command = [sys.executable, "-c", _COLD, str(path)]
    done = subprocess.run(command, input=text, stdout=subprocess.PIPE, text=True, cwd=ROOT, check=False)
    if done.returncode:
        raise SystemExit("benchmarks.server: the check in a new process failed")
    return float(done.stdout)


def measure(options: argparse.Namespace) -> int:
    """Time the edits of one file."""
    text = options.file.read_text(encoding="utf-8") if options.file else text_of_fixtures()

    if options.file:
        text = f"# not saved\n{text}"
    path = options.file.resolve() if options.file else UNSAVED
    cold = [_cold_check(path, text) for _ in range(_COLD_CHECKS)]
    client = Editor([sys.executable, "-m", "torchlint", "server"], path.as_uri())
    found = client.open(text)
    name = options.file.name if options.file else "the fixtures"
    print(f"{name}: {text.count(chr(10))} lines, {found} findings")
    typed: list[float] = []
    undone: list[float] = []
    bursts: list[float] = []
    for row, column in places(text, options.edits):
        for times, start_column, end, content in ((typed, column, column, "x"), (undone, column, column + 1, "")):
            start = time.perf_counter()
            client.change(row, start_column, end, content)
            client.diagnostics()
            times.append(time.perf_counter() - start)
    for row, column in places(text, options.edits // 10):
        for index in range(options.burst):
            client.change(row, column + index, column + index, "x")
            time.sleep(0.01)
        start = time.perf_counter()
        client.diagnostics()
        bursts.append(time.perf_counter() - start)
        client.change(row, column, column + options.burst, "")
        client.diagnostics()
    report("a character typed", typed)
    report("a character taken back", undone)
    report("both", typed + undone)
    report(f"after {options.burst} in a burst", bursts)
    report("in a new process", cold)
    ratio = statistics.median(typed + undone) / statistics.median(cold)
    print(f"median of both: {ratio:.2f} of a check in a new process")
    return client.close()


if __name__ == "__main__":
    sys.exit(main())
