"""Notes in reports: each format says, as far as it can, where the evidence for a finding is."""

from __future__ import annotations

import json
import re
from pathlib import Path
from urllib.parse import unquote

import jsonschema
import pytest
import report_readers
import sample_findings
from report_readers import fingerprints, junit_suites, sarif_cut, sarif_run, workflow_command
from sample_findings import FILE_NAME, SHORT, TEXT, finding, report, results

import torchlint
from torchlint.engine.results import Result
from torchlint.rule import Diagnostic, Note, Place
from torchlint.source.notebook import Notebook

folder = sample_findings.folder
sarif_schema = report_readers.sarif_schema


def place_of(text: str, piece: str, path: str = "") -> Place:
    """The place of a piece of a text."""
    start = text.index(piece)
    return Place(start, start + len(piece), path)


OTHER = 's = "🔥"; run(é)\r\nend\n'
NOTED = finding(
    SHORT,
    notes=(
        Note("nothing else is seen"),
        Note("`layers[0](x)` is defined", place_of(TEXT, "call(\n")),
        Note("it runs", place_of(OTHER, "run(é)", "lib/engine.py")),
    ),
)
SAID = ["note: nothing else is seen", "note: `layers[0](x)` is defined at line 2", "note: it runs at lib/engine.py:1"]


@pytest.fixture
def noted(folder: Path) -> list[Result]:
    """A finding with three notes: without a place, in its own file, and in another file."""
    (folder / "lib").mkdir()
    (folder / "lib" / "engine.py").write_bytes(OTHER.encode())
    return results(NOTED)


def test_formats_of_text_say_where_the_evidence_is(noted: list[Result]) -> None:
    assert report("concise", noted) == report("concise", results(finding(SHORT)))
    shown = [line.strip(" =") for line in report("full", noted).splitlines()]
    assert shown[-4:-1] == SAID
    assert workflow_command(report("github", noted).rstrip("\n"))[2].split("\n  ")[1:] == SAID
    ((case,),) = junit_suites(noted)
    assert case.result[0].text.splitlines()[1:] == SAID
    (item,) = json.loads(report("rdjson", noted))["diagnostics"]
    assert item["message"].splitlines()[1:] == SAID
    (item,) = json.loads(report("gitlab", noted))
    assert item["description"] == "AB101: it is so"


def test_json_gives_notes_as_data(folder: Path, noted: list[Result]) -> None:
    (item,) = json.loads(report("json", noted))
    assert item["notes"] == [
        {"cell": None, "filename": None, "location": None, "message": "nothing else is seen"},
        {
            "cell": None,
            "filename": str(folder / FILE_NAME),
            "location": {"row": 2, "column": 15},
            "message": "`layers[0](x)` is defined",
        },
        {
            "cell": None,
            "filename": str(folder / "lib" / "engine.py"),
            "location": {"row": 1, "column": 10},
            "message": "it runs",
        },
    ]


def test_sarif_links_notes_to_locations(
    folder: Path, noted: list[Result], sarif_schema: jsonschema.protocols.Validator
) -> None:
    sarif_schema.validate(json.loads(report("sarif", noted)))
    (item,) = sarif_run(noted)["results"]
    text = item["message"]["text"]
    assert text.splitlines()[1] == SAID[0]
    links = {int(name): shown for shown, name in re.findall(r"(?<!\\)\[((?:[^][\\]|\\.)*)\]\((\w+)\)", text)}
    assert links == {1: "line 2", 2: "lib/engine.py:1"}
    assert [location["id"] for location in item["relatedLocations"]] == [1, 2]
    pieces = []
    for location, content in zip(item["relatedLocations"], (TEXT, OTHER), strict=True):
        physical = location["physicalLocation"]
        assert (folder / unquote(physical["artifactLocation"]["uri"])).read_bytes().decode() == content
        start, end = sarif_cut(content, physical["region"])
        pieces.append((location["message"]["text"].replace("\\", ""), content[start:end]))
    assert pieces == [("`layers[0](x)` is defined", "call(\n"), ("it runs", "run(é)")]
    (folder / "a [1].py").write_bytes(OTHER.encode())
    (item,) = sarif_run(results(finding(SHORT, notes=(Note("it runs", Place(0, 1, "a [1].py")),))))["results"]
    assert item["message"]["text"].endswith("\nnote: it runs at [a \\[1\\].py:1](1)")
    (plain,) = sarif_run(results(finding(SHORT, notes=(Note("because"),))))["results"]
    assert "relatedLocations" not in plain


@pytest.mark.parametrize("content", [None, b"\xff\xfe"])
def test_a_place_in_a_file_that_cannot_be_read_is_named_by_its_path(
    folder: Path, noted: list[Result], content: bytes | None
) -> None:
    path = folder / "lib" / "engine.py"
    path.unlink() if content is None else path.write_bytes(content)
    (item,) = json.loads(report("json", noted))
    assert (item["notes"][2]["filename"], item["notes"][2]["location"]) == (str(path), None)
    assert "= note: it runs at lib/engine.py\n" in report("full", noted)
    (item,) = sarif_run(noted)["results"]
    assert [location["id"] for location in item["relatedLocations"]] == [1]
    assert item["message"]["text"].endswith("\nnote: it runs at lib/engine.py")


def test_notes_of_a_notebook_name_row_and_cell(folder: Path, sarif_schema: jsonschema.protocols.Validator) -> None:
    source = Notebook.from_cells("n.ipynb", [(2, "x = 1\nload('line 1')\n"), (4, "a\nb = call(1)\n")])
    notes = (
        Note("`load('line 1')` is seen", place_of(source.text, "load")),
        Note("it is so", place_of(source.text, "a\nb")),
    )
    start = source.text.index("call")
    found = [Result("n.ipynb", (Diagnostic("AB101", "some-name", "m", start, start + 7, notes=notes),), source)]
    said = ["note: `load('line 1')` is seen at line 2 of cell 2", "note: it is so at line 1"]
    assert [line.strip(" =") for line in report("full", found).splitlines()][-3:-1] == said
    (item,) = json.loads(report("json", found))
    assert [(note["cell"], note["location"], note["message"]) for note in item["notes"]] == [
        (2, {"row": 2, "column": 1}, "`load('line 1')` is seen"),
        (4, {"row": 1, "column": 1}, "it is so"),
    ]
    sarif_schema.validate(json.loads(report("sarif", found)))
    (item,) = sarif_run(found)["results"]
    assert item["message"]["text"].splitlines()[1:] == said and "relatedLocations" not in item
    (item,) = json.loads(report("rdjson", found))["diagnostics"]
    assert item["message"].splitlines()[1:] == said


@pytest.mark.parametrize("name", ["gitlab", "sarif"])
def test_fingerprints_do_not_depend_on_notes(folder: Path, noted: list[Result], name: str) -> None:
    assert fingerprints(name, noted) == fingerprints(name, results(finding(SHORT)))


def test_notes_of_many_places_are_in_the_order_of_the_file() -> None:
    loaders = "".join(
        f"    if kind == {n}:\n        loader = DataLoader(datasets.CIFAR10('a{n}'), num_workers=4, pin_memory=True)\n"
        for n in range(12)
    )
    text = (
        "import torch\nfrom torch.utils.data import DataLoader\nfrom torchvision import datasets\n\n\n"
        f"def main(kind):\n{loaders}    model = torch.nn.Linear(3072, 10).cuda()\n    for images, labels in loader:\n"
        "        loss = model(images.cuda()).sum()\n        loss.backward()\n        optimizer.step()\n"
    )
    settings = torchlint.load_settings(None, {"select": ["TL204"]})
    (found,) = torchlint.check_text(text, settings=settings)
    starts = [note.place.start for note in found.notes if note.place is not None and "pins" in note.message]
    assert starts == sorted(starts)
    assert len(starts) >= 8
