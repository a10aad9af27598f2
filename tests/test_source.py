"""Sources: nothing is lost on the way from bytes to text and back; places are counted as Python counts them."""

from __future__ import annotations

import os
import tokenize
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from torchlint.source import reading
from torchlint.source.reading import MAX_BYTES
from torchlint.source.source import Source, SourceError


@pytest.mark.parametrize(
    ("data", "encoding"),
    [
        (b"x = 1\n", "utf-8"),
        (b"x = 1", "utf-8"),
        (b"", "utf-8"),
        (b"a\r\nb\rc\n\x0cd\n", "utf-8"),
        (b"\xef\xbb\xbfx = 1\r\n", "utf-8"),
        ("name = 'λ'\n".encode(), "utf-8"),
        (b"# -*- coding: latin-1 -*-\nname = '\xe9'\n", "iso8859-1"),
        (b"#!/usr/bin/python\n# vim: set fileencoding=cp1252 :\nname = '\x80'\n", "cp1252"),
        ("# coding: shift_jis\nname = '日本'\n".encode("shift_jis"), "shift_jis"),
    ],
)
def test_bytes_come_back_unchanged(data: bytes, encoding: str) -> None:
    source = reading.from_bytes(data)
    assert source.encoding == encoding
    assert source.encode(source.text) == data


@given(st.binary())
def test_any_bytes_are_text_or_a_one_line_reason(data: bytes) -> None:
    try:
        source = reading.from_bytes(data)
    except SourceError as error:
        assert str(error) and "\n" not in str(error)
    else:
        assert source.encoding != "utf-8" or source.encode(source.text) == data


@given(st.text(alphabet=st.sampled_from("ab\n\r\f\v\u2028é🙂"), max_size=60))
def test_every_offset_is_found_again_in_its_row(text: str) -> None:
    source = Source.from_text(text)
    for offset, character in enumerate(text):
        row, column = source.location(offset)
        assert source.line_starts[row - 1] + column - 1 == offset
        if character not in "\r\n":
            assert source.line(row)[column - 1] == character


def test_only_newlines_end_a_row() -> None:
    source = Source.from_text("a\x0cb\u2028c\nd\re\r\nf")
    assert [source.line(row) for row in range(1, 5)] == ["a\x0cb\u2028c", "d", "e", "f"]
    assert source.location(len(source.text)) == (4, 2)


def test_the_cookie_counts_only_where_python_looks_for_it(tmp_path: Path) -> None:
    for text in ("x = 1\n# coding: latin-1\n", "\n\n# coding: latin-1\n", "x = '# coding: latin-1'\n"):
        assert reading.from_bytes(text.encode()).encoding == "utf-8"
    path = tmp_path / "a.py"
    for text in (
        "# coding: latin-1\n",
        "\n# coding=latin-1\n",
        "\x0c# coding: latin-1\n",
        "# x\n  # coding: latin-1\n",
    ):
        path.write_text(text)
        with tokenize.open(path) as file:
            assert file.encoding == "iso-8859-1"
        assert reading.read(str(path)).encoding == "iso8859-1"


@pytest.mark.parametrize("name", ["future_fstrings", "future-fstrings", "Future_Annotations"])
def test_the_encoding_of_a_backport_is_utf_8(name: str) -> None:
    source = reading.from_bytes(f"# -*- coding: {name} -*-\nprint(f'{{1}} \u00e9')\n".encode())
    assert (source.encoding, source.line(2)) == ("utf-8", "print(f'{1} \u00e9')")
    assert source.to_bytes().endswith(b"\xc3\xa9')\n")


@pytest.mark.parametrize(
    ("data", "reason"),
    [
        (b"x = '\xff'\n", "not utf-8: byte 0xff on line 1"),
        (b"x\ny\r\n\xc3", "not utf-8: byte 0xc3 on line 3"),
        (b"\x7fELF\0\0", "binary"),
        ("x = 1".encode("utf-16"), "UTF-16"),
        (b"# coding: klingon\n", "unknown encoding: klingon"),
        (b"# coding: rot13\n", "not for text: rot13"),
        (b"\xef\xbb\xbf# coding: latin-1\n", "byte-order mark"),
        (b"# coding: ascii\nx = '\xc3\xa9'\n", "not ascii: byte 0xc3 on line 2"),
    ],
)
def test_what_is_not_python_text_is_refused_with_a_reason(data: bytes, reason: str) -> None:
    with pytest.raises(SourceError, match=reason):
        reading.from_bytes(data)


def test_enormous_files_are_refused(tmp_path: Path) -> None:
    path = tmp_path / "big.py"
    with path.open("wb") as file:
        file.truncate(MAX_BYTES + 1)
    with pytest.raises(SourceError, match="too large"):
        reading.read(str(path))


@pytest.mark.skipif(not os.path.exists("/dev/zero"), reason="needs a device file")
def test_devices_are_not_read() -> None:
    with pytest.raises(OSError, match="not a regular file"):
        reading.read("/dev/zero")


def test_text_that_does_not_fit_the_encoding_is_refused() -> None:
    source = reading.from_bytes(b"# coding: ascii\n")
    with pytest.raises(SourceError, match="does not fit into ascii"):
        source.encode(source.text + "é")
