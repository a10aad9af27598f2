"""The names of members that objects of a program may have: attributes of other names are those of libraries."""

from __future__ import annotations

import libcst as cst

from torchlint.model.syntax.dotted import last_part
from torchlint.model.syntax.tree import Tree

#: Classes whose objects have what they are given by keyword as attributes.
RECORDS = frozenset("Munch EasyDict edict AttrDict SimpleNamespace Namespace Bunch Box DotMap ConfigDict".split())


def member_names(tree: Tree) -> frozenset[str]:
    """What the classes of a program bind, and what it stores in attributes or gives to records."""
    bound = (name for definition in tree.classes for name in tree.scopes[definition].bindings)
    stored = (target.attr.value for target, _, _ in tree.stores if isinstance(target, cst.Attribute))
    return frozenset({*bound, *stored, *map(last_part, tree.stored), *given_to_records(tree)})


def given_to_records(tree: Tree) -> set[str]:
    """The attributes of records that are given by keyword: ``Munch(train=loader)``."""
    made = tree.calls_named(*RECORDS)
    return {item.keyword.value for call in made for item in call.args if item.keyword is not None}
