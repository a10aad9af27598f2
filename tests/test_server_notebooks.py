"""Notebooks in the language server: one module, whose findings are in its cells."""

from __future__ import annotations

from pathlib import Path

import pytest
import server_client
from lsprotocol import types
from server_client import FIX_ALL, Editor, editor, related, uri_of

pytestmark = pytest.mark.filterwarnings("error::pytest_lsp.LspSpecificationWarning")

folder = server_client.folder


def open_notebook(client: Editor, uri: str, *texts: str) -> list[str]:
    """Open a notebook; the URIs of its cells, of which the first holds prose."""
    cells = [types.NotebookCell(types.NotebookCellKind.Markup, f"{uri}#prose")]
    documents = [types.TextDocumentItem(f"{uri}#prose", "markdown", 1, "LOUD")]
    for number, text in enumerate(texts):
        cells.append(types.NotebookCell(types.NotebookCellKind.Code, f"{uri}#{number}"))
        documents.append(types.TextDocumentItem(f"{uri}#{number}", "python", 1, text))
    for document in documents:
        client.texts[document.uri], client.versions[document.uri] = document.text, 1
    notebook = types.NotebookDocument(uri, "jupyter-notebook", 1, cells)
    client.notebook_document_did_open(types.DidOpenNotebookDocumentParams(notebook, documents))
    return [document.uri for document in documents[1:]]


def change_cells(client: Editor, uri: str, version: int, cells: types.NotebookDocumentCellChanges) -> None:
    document = types.VersionedNotebookDocumentIdentifier(version=version, uri=uri)
    change = types.NotebookDocumentChangeEvent(cells=cells)
    client.notebook_document_did_change(types.DidChangeNotebookDocumentParams(document, change))


@pytest.mark.asyncio
@pytest.mark.parametrize("pull", [False, True])
async def test_a_notebook_is_one_module_with_findings_in_its_cells(folder: Path, pull: bool) -> None:
    uri = uri_of(folder, "train.ipynb")
    async with editor(folder, pull=pull) as client:
        one, two = open_notebook(client, uri, "%matplotlib inline\ns = '😀'; LOUD = 1", "x = 1\nRISKY = LOUD")
        assert await client.shown(one) == ["ZZ101 LOUD"]
        assert await client.shown(two) == ["ZZ102 RISKY", "ZZ101 LOUD"]
        if pull:
            assert (await client.pull(two)).items == ()  # else they would be shown twice
        document = types.VersionedTextDocumentIdentifier(uri=two, version=2)
        start = types.Position(0, 0)
        edit = types.TextDocumentContentChangePartial(types.Range(start, start), "y = LOUD; ")
        client.texts[two], client.versions[two] = "y = LOUD; " + client.texts[two], 2
        text = types.NotebookDocumentCellContentChanges(document, [edit])
        change_cells(client, uri, 2, types.NotebookDocumentCellChanges(text_content=[text]))
        assert await client.shown(two) == ["ZZ101 LOUD", "ZZ102 RISKY", "ZZ101 LOUD"]
        client.published.clear()
        array = types.NotebookCellArrayChange(start=1, delete_count=1)
        gone = types.NotebookDocumentCellChangeStructure(array, did_close=[types.TextDocumentIdentifier(one)])
        change_cells(client, uri, 3, types.NotebookDocumentCellChanges(structure=gone))
        assert await client.shown(two) == ["ZZ101 LOUD", "ZZ102 RISKY", "ZZ101 LOUD"]
        assert [item.diagnostics for item in client.published if item.uri == one] == [()]
        client.published.clear()
        closing = types.DidCloseNotebookDocumentParams(
            types.NotebookDocumentIdentifier(uri), [types.TextDocumentIdentifier(two)]
        )
        client.notebook_document_did_close(closing)
        await client.until(lambda: bool(client.published))
        assert [(item.uri, item.diagnostics) for item in client.published] == [(two, ())]


@pytest.mark.asyncio
async def test_a_cell_that_is_not_python_yet_leaves_the_findings_of_others(folder: Path) -> None:
    async with editor(folder) as client:
        one, two = open_notebook(client, uri_of(folder, "train.ipynb"), "LOUD = (", "RISKY = 1")
        assert await client.shown(two) == ["ZZ102 RISKY"]
        assert await client.shown(one) == []


@pytest.mark.asyncio
async def test_evidence_may_be_in_another_cell(folder: Path) -> None:
    async with editor(folder) as client:
        one, two = open_notebook(client, uri_of(folder, "train.ipynb"), "x = 1\nTARGET = '😀'", "y = 1\nPOINT = 2")
        assert await client.shown(two) == ["ZY104 POINT"]
        (item,) = client.published[-1].diagnostics
        assert related(client, item) == [("here", one, "TARGET")]


@pytest.mark.asyncio
async def test_fixes_of_a_notebook_edit_its_cells(folder: Path) -> None:
    uri = uri_of(folder, "train.ipynb")
    async with editor(folder) as client:
        one, two, three = open_notebook(client, uri, "import sys", "LOUD = 1", "!ls\nprint(NEEDS, LOUD)")
        await client.shown(three)
        fix = (await client.actions(three, "NEEDS"))["(ZZ107): write it otherwise: NEEDS"].edit
        assert fix is not None and fix.document_changes is not None
        assert {item.text_document.uri for item in fix.document_changes} == {one, three}  # type: ignore[union-attr]
        suppress = (await client.actions(two, "LOUD"))["(ZZ101): suppress on this line"].edit
        assert suppress is not None and suppress.document_changes is not None
        assert [item.text_document.uri for item in suppress.document_changes] == [two]  # type: ignore[union-attr]
        # Each cell is asked for `source.fixAll`, and would mend the notebook once more.
        assert await client.actions(three, "NEEDS", ["source.fixAll"]) == {}
        found = await client.actions(three, "NEEDS", ["notebook.source.fixAll"])
        action = found["torchlint" + FIX_ALL]
        assert action.kind == "notebook.source.fixAll.torchlint"
        edit = (await client.code_action_resolve_async(action)).edit
        assert edit is not None and edit.document_changes is not None
        changed = {
            item.text_document.uri: [change.new_text for change in item.edits]  # type: ignore[union-attr]
            for item in edit.document_changes
        }
        assert changed == {
            one: ["import os\n"],
            two: ["loud = 1"],
            three: ["print(os.sep, loud)"],
        }
