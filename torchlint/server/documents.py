"""What the editor has open: texts that follow its edits, and what of them is analysed together."""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from urllib.parse import unquote

from lsprotocol import types
from pygls.uris import from_fs_path, to_fs_path
from pygls.workspace import PositionCodec, TextDocument, Workspace

from torchlint.source import reading
from torchlint.source.notebook import Notebook
from torchlint.source.ranges import Edit, Place
from torchlint.source.reading import MAX_BYTES
from torchlint.source.source import Source, SourceError


class Document(TextDocument):
    """A text document whose lines end where the protocol says; pygls splits them at form feeds and the like too."""

    def _apply_incremental_change(self, change: types.TextDocumentContentChangePartial) -> None:
        text = Text(self.source, self.position_codec)
        start, end = text.offset(change.range.start), text.offset(change.range.end)
        self._source = self.source[:start] + change.text + self.source[max(start, end) :]


class Documents(Workspace):
    """The workspace, with such documents."""

    def _create_text_document(
        self, doc_uri: str, source: str | None = None, version: int | None = None, language_id: str | None = None
    ) -> TextDocument:
        return Document(
            doc_uri,
            source=source,
            version=version,
            language_id=language_id,
            sync_kind=self._sync_kind,
            position_codec=self.position_codec,
        )


class Text:
    """Converts between offsets in a text and positions as the client counts them."""

    def __init__(self, text: str, codec: PositionCodec) -> None:
        self._source = Source.from_text(text)
        self._codec = codec

    def of(self, text: str) -> Text:
        """Another text, in which the client counts alike."""
        return Text(text, self._codec)

    def position(self, offset: int) -> types.Position:
        """The position of a character."""
        row, column = self._source.location(offset)
        before = self._source.text[offset - column + 1 : offset]
        return types.Position(row - 1, len(before) if before.isascii() else self._codec.client_num_units(before))

    def offset(self, position: types.Position) -> int:
        """The character at a position; of one behind the end of a line, the end of that line."""
        if position.line >= len(self._source.line_starts):
            return len(self._source.text)
        start = self._source.line_starts[position.line]
        line = self._source.line(position.line + 1)
        if line.isascii():
            return start + min(position.character, len(line))
        units = position.character
        for index, character in enumerate(line):
            if units <= 0:
                return start + index
            units -= self._codec.client_num_units(character)
        return start + len(line)

    def range(self, start: int, end: int) -> types.Range:
        """The range of the characters ``[start, end)``."""
        return types.Range(self.position(start), self.position(end))


@dataclass(frozen=True)
class Part:
    """A document that is analysed, alone or as a cell of a notebook."""

    uri: str
    version: int | None
    text: Text
    start: int  #: where it begins in the source
    end: int


@dataclass(frozen=True)
class Snapshot:
    """What is analysed as one: a document, or the Python cells of a notebook, as they are at one moment."""

    uri: str  #: of the document or notebook
    path: str  #: where it is stored, or would be
    stored: bool  #: whether there is such a file, as far as the editor says
    source: Source
    parts: tuple[Part, ...]
    version: int | None  #: of the document or notebook
    others: Mapping[str, str] = field(default_factory=dict)  #: by path, texts that count in place of those on disk

    @property
    def is_notebook(self) -> bool:
        """Whether the parts are cells."""
        return isinstance(self.source, Notebook)

    @property
    def stamp(self) -> tuple[object, ...]:
        """What tells it from snapshots of other moments."""
        return self.version, *((part.uri, part.version) for part in self.parts)

    def part_at(self, offset: int) -> Part:
        """The document that contains a character of the source."""
        return next((part for part in self.parts if part.start <= offset <= part.end), self.parts[-1])

    def part_of(self, uri: str) -> Part | None:
        """The document with this URI."""
        return next((part for part in self.parts if part.uri == uri), None)

    def range(self, start: int, end: int) -> types.Range:
        """The range of the characters ``[start, end)``, in the document that contains the first of them."""
        part = self.part_at(start)
        return part.text.range(start - part.start, min(end, part.end) - part.start)

    def location(self, place: Place) -> types.Location | None:
        """Where a place named by a finding is; None if it is in another file that is a notebook or cannot be read."""
        if not place.path:
            return types.Location(self.part_at(place.start).uri, self.range(place.start, place.end))
        text = self.others.get(os.path.abspath(place.path))
        source = reading.containing(self.source, place) if text is None else Source.from_text(text, place.path)
        uri = from_fs_path(os.path.abspath(place.path))
        if source is None or source.cells or uri is None:
            return None
        return types.Location(uri, self.parts[0].text.of(source.text).range(place.start, place.end))

    def text_edits(self, edits: Iterable[Edit]) -> dict[Part, list[types.TextEdit]]:
        """Edits of the source, none of which crosses the end of a document, by document."""
        found: dict[Part, list[types.TextEdit]] = {}
        for edit in edits:
            part = self.part_at(edit.start)
            found.setdefault(part, []).append(types.TextEdit(self.range(edit.start, edit.end), edit.content))
        return found


def snapshot_of(workspace: Workspace, uri: str) -> Snapshot | None:
    """What is to be analysed of the open document or notebook (or the notebook of the cell) with this URI, if any."""
    notebook = workspace.get_notebook_document(notebook_uri=uri) or workspace.get_notebook_document(cell_uri=uri)
    if notebook is not None:
        return _notebook(workspace, notebook)
    document = workspace.text_documents.get(_key(uri))
    if document is None or not _is_python(document) or len(document.source) > MAX_BYTES:
        return None
    path, stored = _path_of(workspace, uri)
    source = Source.from_text(document.source, path)
    part = Part(uri, document.version, Text(document.source, document.position_codec), 0, len(document.source))
    return Snapshot(uri, path, stored, source, (part,), document.version)


def open_uris(workspace: Workspace) -> list[str]:
    """The URIs of all open documents and notebooks; not those of cells."""
    cells = {_key(cell.document) for notebook in workspace.notebook_documents.values() for cell in notebook.cells}
    single = [document.uri for key, document in workspace.text_documents.items() if key not in cells]
    return [*single, *(notebook.uri for notebook in workspace.notebook_documents.values())]


def open_texts(workspace: Workspace) -> dict[str, str]:
    """The texts of the open Python files, by path; not those of cells."""
    found = {}
    for uri in open_uris(workspace):
        path = path_of(uri)
        document = workspace.text_documents.get(_key(uri))
        if path is not None and document is not None and _is_python(document) and len(document.source) <= MAX_BYTES:
            found[os.path.abspath(path)] = document.source
    return found


def root_of(workspace: Workspace) -> str:
    """The folder that is open in the editor; of several, the first."""
    return next(iter(folders_of(workspace)), os.getcwd())


def folders_of(workspace: Workspace) -> list[str]:
    """The folders that are open in the editor."""
    uris = [folder.uri for folder in workspace.folders.values()] or [workspace.root_uri]
    return [path for uri in uris if uri and (path := path_of(uri)) is not None]


def snapshot_of_file(path: str, uri: str, codec: PositionCodec) -> Snapshot | None:
    """What is to be analysed of a Python file that is not open; None if it cannot be read."""
    try:
        source = reading.read(path)
    except (OSError, SourceError):
        return None
    part = Part(uri, None, Text(source.text, codec), 0, len(source.text))
    return Snapshot(uri, path, True, source, (part,), None)


def path_of(uri: str) -> str | None:
    """The path of a file; None of what is not a file."""
    return to_fs_path(uri)


def _notebook(workspace: Workspace, notebook: types.NotebookDocument) -> Snapshot | None:
    cells = []
    documents = []
    for number, cell in enumerate(notebook.cells, 1):
        document = workspace.text_documents.get(_key(cell.document))
        if document is not None and cell.kind is types.NotebookCellKind.Code and document.language_id == "python":
            cells.append((number, document.source))
            documents.append(document)
    if not documents or sum(len(text) for _, text in cells) > MAX_BYTES:
        return None
    path, stored = _path_of(workspace, notebook.uri)
    source = Notebook.from_cells(path, cells)
    parts = tuple(
        Part(document.uri, document.version, Text(document.source, document.position_codec), cell.start, cell.end)
        for document, cell in zip(documents, source.cells, strict=True)
    )
    return Snapshot(notebook.uri, path, stored, source, parts, notebook.version)


def _path_of(workspace: Workspace, uri: str) -> tuple[str, bool]:
    """Where a document is stored, or would be, and which of both."""
    path = path_of(uri)
    if path is not None:
        return path, True
    return os.path.join(root_of(workspace), os.path.basename(uri.partition(":")[2]) or "untitled"), False


def _is_python(document: TextDocument) -> bool:
    return document.language_id == "python" or (not document.language_id and document.path.endswith(".py"))


def _key(uri: str) -> str:
    """How pygls files a document."""
    return unquote(uri)
