"""What must hold of every file (`benchmarks/reliability`), asked of a sample; the command asks it of everything."""

from __future__ import annotations

import sysconfig
from collections.abc import Sequence
from pathlib import Path
from random import Random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from benchmarks.reliability.inputs import Input, Kind
from benchmarks.reliability.invariants import examined
from benchmarks.reliability.mutations import mutated
from torchlint.source.ranges import Edit
from torchlint.source.source import Source

ROOT = Path(__file__).resolve().parent.parent
PROGRAMS = sorted(
    path
    for pattern in ("fixtures/*/before.py", "tests/programs/*.py", "validation/programs/*/before.py")
    for path in ROOT.glob(pattern)
    if path.stem != "helper_autocast"  # its import stays, though unused: another file takes the name from it
)
#: Files of CPython that use all of its grammar, encodings, newlines and unusual characters; some are in new releases.
GRAMMAR = [
    path
    for name in (
        *("test_grammar", "test_fstring", "test_syntax", "test_patma", "test_coroutines", "test_unicode_identifiers"),
        *("test_decorators", "test_named_expressions", "test_type_comments", "test_tokenize", "test_source_encoding"),
        *("encoded_modules/module_koi8_r", "encoded_modules/module_iso_8859_1", "test_exception_group"),
    )
    for path in Path(sysconfig.get_path("stdlib"), "test").glob(f"{name}.py")
]
SEEDS = range(0, 400, 20)


@pytest.mark.parametrize("path", PROGRAMS, ids=lambda path: f"{path.parent.name}/{path.name}")
def test_programs(path: Path) -> None:
    outcome = Input(Kind.FILE, path).outcome()
    assert outcome.violations == []


def test_there_are_fixes_among_them() -> None:
    fixes = 0
    for path in PROGRAMS[:30]:
        if fixes < 20:
            fixes += examined(path.read_bytes(), "program.py", str(path)).fixes
    assert fixes >= 20


@pytest.mark.parametrize("path", GRAMMAR, ids=lambda path: path.stem)
def test_the_grammar_of_python(path: Path) -> None:
    words = b"# import torch; torch.compile; DataLoader; loss.item(); model.eval(); x.cuda(); torch.no_grad\n"
    text = path.read_bytes()
    assert examined(text, "a.py", path.stem).violations == []
    assert (
        examined(text + b"\nimport torch\nmodel = torch.compile(net).cuda()\n" + words, "b.py", path.stem).violations
        == []
    )


@pytest.mark.parametrize("seed", SEEDS)
def test_mutations(seed: int) -> None:
    random = Random(seed)
    for number in range(20):
        outcome = Input(Kind.MUTATION, random.choice(PROGRAMS), seed + number).outcome()
        assert outcome.violations == [], outcome.content.decode("utf-8", "backslashreplace")


def test_a_mutation_is_made_again_by_its_seed() -> None:
    content = PROGRAMS[0].read_bytes()
    assert mutated(content, Random(3)) == mutated(content, Random(3)) != content


@settings(max_examples=150, deadline=None)
@given(st.binary(max_size=300))
def test_any_bytes(content: bytes) -> None:
    assert examined(b"import torch\n" + content, "a.py", "bytes").violations == []


@settings(max_examples=100, deadline=None)
@given(st.text(max_size=300), st.sampled_from(["a.py", "a.ipynb"]))
def test_any_text(content: str, name: str) -> None:
    assert examined(content.encode("utf-8", "surrogatepass"), name, "text").violations == []


def test_what_does_not_hold_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    """The check of the checks: a fix that loses a comment, an import that nothing uses."""
    original = Source.edited

    def edited(self: Source, edits: Sequence[Edit]) -> Source:
        text = original(self, edits).text.replace("# a note\n", "import os\n")
        return Source.from_text(text, self.path)

    monkeypatch.setattr(Source, "edited", edited)
    text = "import torch\n\nfor i in range(3):\n    # a note\n    print(torch.zeros(i).cuda())\n"
    told = examined(text.encode(), "a.py", "a.py").violations
    assert any("a comment is gone: # a note" in line for line in told)
    assert any("pyflakes says: UnusedImport" in line for line in told)
