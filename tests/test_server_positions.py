"""Positions in the texts of the language server, in each encoding that a client may ask for."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st
from lsprotocol import types
from pygls.workspace import PositionCodec

from torchlint.server.documents import Document, Text

TEXTS = st.text(st.sampled_from("aé漢😀\n\r\t\f\u2028"), max_size=30)


@given(text=TEXTS, encoding=st.sampled_from(list(types.PositionEncodingKind)), data=st.data())
def test_every_place_has_one_position(text: str, encoding: types.PositionEncodingKind, data: st.DataObject) -> None:
    converted = Text(text, PositionCodec(encoding))
    offset = data.draw(st.integers(0, len(text)))
    position = converted.position(offset)
    if text[offset - 1 : offset + 1] != "\r\n":  # no place lies within a newline
        assert converted.offset(position) == offset
    before = text[:offset].replace("\r\n", "\n").replace("\r", "\n").split("\n")
    assert position.line == len(before) - 1 or text[offset - 1 : offset + 1] == "\r\n"


@given(
    text=TEXTS,
    inserted=TEXTS,
    encoding=st.sampled_from(list(types.PositionEncodingKind)),
    places=st.tuples(st.integers(0, 30), st.integers(0, 30)),
)
def test_an_edit_of_the_client_is_made_where_the_client_made_it(
    text: str, inserted: str, encoding: types.PositionEncodingKind, places: tuple[int, int]
) -> None:
    start, end = sorted(min(place, len(text)) for place in places)
    if "\r\n" in (text[start - 1 : start + 1], text[end - 1 : end + 1]):
        return
    codec = PositionCodec(encoding)
    converted = Text(text, codec)
    document = Document("file:///x.py", text, 1, "python", position_codec=codec)
    place = types.Range(converted.position(start), converted.position(end))
    document.apply_change(types.TextDocumentContentChangePartial(place, inserted))
    assert document.source == text[:start] + inserted + text[end:]
