"""The project of a file: the files it may depend on, their imports, definitions and identifiers.

Everything here comes from texts and Python's own parser. Nothing of the model is imported.
"""

from torchlint.project.consulted import Consulted
from torchlint.project.imports import DefinitionKind, Import, Pieces
from torchlint.project.project import Definition, Project

__all__ = ["Consulted", "Definition", "DefinitionKind", "Import", "Pieces", "Project"]
