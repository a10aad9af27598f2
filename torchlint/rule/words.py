"""Which words a text contains: what rules ask of a text before it is parsed."""

from __future__ import annotations

import re
from functools import cache, lru_cache
from keyword import iskeyword

from torchlint.source.lexemes import names

#: Strings that a text must contain; of a tuple, at least one; of a pattern, a match.
Word = str | tuple[str | re.Pattern[str], ...] | re.Pattern[str]
Words = tuple[Word, ...]

_NAME = re.compile(r"\w+")


def contains(text: str, words: Words) -> bool:
    """Whether a text contains all the words."""
    return all(map(_answers(text).__getitem__, words))


class _Answers(dict[Word, bool]):
    """Whether a text contains a word: rules share most of their words, and each is looked for once.

    A name is looked for in the names of the text, which are far fewer characters, and before what contains it.
    """

    def __init__(self, text: str) -> None:
        super().__init__()
        self._text = text
        self._names = " ".join(names(text))

    def __missing__(self, word: Word) -> bool:
        if isinstance(word, str):
            name = _name_in(word)
            found = name in self._names and (name == word or word in self._text)
        elif isinstance(word, tuple):
            found = any(map(self.__getitem__, word))
        else:
            found = word.search(self._text) is not None
        self[word] = found
        return found


@lru_cache(maxsize=2)  # the text of a file, and the one of its context
def _answers(text: str) -> _Answers:
    return _Answers(text)


@cache
def _name_in(word: str) -> str:
    """The longest name in a word, or part of one; empty if there is none but keywords."""
    return max((name for name in _NAME.findall(word) if not iskeyword(name)), key=len, default="")
