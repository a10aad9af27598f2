"""The files of a project, or parts of them, that are analysed together."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property

from torchlint.cache.folder import digest
from torchlint.model.syntax.pieces import Piece
from torchlint.source.lexemes import code_of


@dataclass(frozen=True, eq=False)
class ContextFile:
    """A file of the project, of which some pieces are known."""

    path: str
    text: str
    spans: tuple[tuple[int, int], ...]  #: where the pieces begin and end in the text, in order; at least one
    whole: bool  #: whether these are all pieces
    parse: Callable[[ContextFile], Sequence[Piece]]

    @cached_property
    def pieces(self) -> Sequence[Piece]:
        """The pieces with their trees; none if one of them cannot be parsed."""
        return self.parse(self)

    @property
    def known_text(self) -> str:
        """The text of the pieces."""
        return self.text if self.whole else "".join(self.text[start:end] for start, end in self.spans)

    @cached_property
    def code(self) -> str:
        """The text of the pieces, without comments and triple-quoted strings."""
        return code_of(self.known_text)


#: Keys of the class of an object: of Hydra since 1.0, of latent-diffusion and its like, of Hydra before 1.0.
CLASS_KEYS = ("_target_", "target", "class")


@dataclass(frozen=True)
class ConfigValue:
    """What a configuration file, such as a YAML file, sets a key to."""

    file: str  #: relative to the root of the project
    text: str  #: as it is written: ``4``, ``true``, ``${workers}``; empty where it is a mapping or a list
    group: str = ""  #: the key of the mapping around it, as far as the indentation shows it


#: The last key of a value and the path of the Python file that reads it -> what configuration files set the key to.
Configured = Callable[[str, str], Sequence[ConfigValue]]

#: The name of a variable or attribute -> the paths of Python files that it is set to, with ``*`` for what is computed.
PathsOf = Callable[[str], Sequence[str]]


@dataclass(frozen=True, eq=False)
class Context:
    """Files that are analysed together: some as a whole, and of others what these use and what uses them."""

    root: str  #: the folder that all paths here are relative to
    files: tuple[ContextFile, ...]
    #: the dotted name of a module, with leading dots if it is relative, and the file that imports it -> the file
    resolve: Callable[[str, str], str | None]
    configured: Configured = lambda key, reader: ()
    #: by absolute path the texts of configuration files that answers of `configured` depended on so far
    read_configs: Callable[[], Mapping[str, str]] = dict
    paths_of: PathsOf = lambda name: ()

    @cached_property
    def texts(self) -> Mapping[str, str]:
        """The texts of the files by their absolute paths."""
        return {os.path.abspath(os.path.join(self.root, file.path)): file.text for file in self.files}

    @cached_property
    def digest(self) -> str:
        """A short name of all pieces and their places."""
        return digest(repr([(file.path, file.whole, file.spans, file.known_text) for file in self.files]))

    @cached_property
    def code(self) -> str:
        """The text of all pieces, without comments and triple-quoted strings."""
        return "\n".join(file.code for file in self.files)
