"""The forests that are kept while a run goes from file to file."""

from __future__ import annotations

import os
from collections import OrderedDict

from torchlint.model.forest import Forest, ForestFile
from torchlint.model.syntax.context import Context
from torchlint.source.paths import is_importable

#: So many are kept: the files of one folder may belong to several.
_MAX_FORESTS = 4

_forests: OrderedDict[Context, Forest] = OrderedDict()


def of_context(context: Context) -> Forest | None:
    """The forest of a context, without files that cannot be parsed; None if none can. Raises RecursionError."""
    known = _forests.get(context)
    if known is None:
        files = [
            ForestFile(path, file.path, file.text, file.pieces, file.whole, is_importable(path))
            for file in context.files
            if file.pieces
            for path in (os.path.normpath(os.path.join(context.root, file.path)),)
        ]
        if not files:
            return None
        before = next((other for other in reversed(_forests) if _is_earlier(other, context)), None)
        tree = None
        if before is not None:
            earlier = _forests.pop(before)
            same = {id(file.pieces): file for file in earlier.files}
            files = [same.get(id(file.pieces), file) for file in files]
            tree = earlier.give_tree()
        while len(_forests) >= _MAX_FORESTS:
            _forests.popitem(last=False)[1].release()
        known = _forests[context] = Forest(files, context.resolve, context.configured, tree, context.paths_of)
    _forests.move_to_end(context)
    return known


def _is_earlier(one: Context, other: Context) -> bool:
    """Whether a context is that of the same files before some of them changed."""
    mains = [[file.path for file in context.files if file.whole] for context in (one, other)]
    return one.root == other.root and mains[0] == mains[1] and not set(one.files).isdisjoint(other.files)


def forget() -> None:
    """Keep none: an analysis of one of them was interrupted."""
    while _forests:
        _forests.popitem()[1].release()


def done(forest: Forest) -> None:
    """Release a forest that is not kept."""
    if all(kept is not forest for kept in _forests.values()):
        forest.release()
