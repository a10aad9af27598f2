"""Comments and strings of a text that need not be Python: regular expressions that no text makes fail."""

from __future__ import annotations

#: A comment, up to the end of its line.
COMMENT = r"\#[^\r\n]*"
#: A string without its prefix. An unfinished one ends with its line, a triple-quoted one with the text.
#: For ``re.VERBOSE | re.DOTALL``.
STRING = r"""(?: \"\"\"[^"\\]*(?:(?:\\.|"(?!""))[^"\\]*)*(?:\"\"\"|\Z)
    | '''[^'\\]*(?:(?:\\.|'(?!''))[^'\\]*)*(?:'''|\Z)
    | "(?:[^"\\\r\n]|\\(?:\r\n|.))*"?
    | '(?:[^'\\\r\n]|\\(?:\r\n|.))*'? )"""
