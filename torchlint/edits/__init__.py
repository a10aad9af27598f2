"""The edits that rules share: calls and their arguments, imports, decorators, inserted and deleted lines, ``with``.

Every function gives the edits for one place, or None where the source does not allow the change without touching
more than it should. An edit covers no character that it does not change.
"""

from torchlint.edits.calls import (
    add_keyword,
    name_argument,
    prepend_argument,
    remove_argument,
    remove_arguments,
    remove_method_call,
    set_argument,
    unwrap,
    without_option,
)
from torchlint.edits.imports import insert_behind_imports, name_functional, name_module, remove_imported_name
from torchlint.edits.process_settings import insert_setting
from torchlint.edits.statements import (
    decorate,
    delete_statement,
    delete_with_block,
    drop_method_call,
    indent_under,
    insert_after,
    insert_before,
    remove_decorator,
    statement_of_call,
    wrap_in_with,
)
from torchlint.edits.text import (
    Edits,
    indentation_at,
    insert_above_comments,
    newline_of,
    replace,
    statement_end,
    unbracketed,
)
from torchlint.edits.unused_imports import with_unused_imports

__all__ = [
    "Edits",
    "add_keyword",
    "decorate",
    "delete_statement",
    "delete_with_block",
    "drop_method_call",
    "indent_under",
    "indentation_at",
    "insert_above_comments",
    "insert_after",
    "insert_before",
    "insert_behind_imports",
    "insert_setting",
    "name_argument",
    "name_functional",
    "name_module",
    "newline_of",
    "prepend_argument",
    "remove_argument",
    "remove_arguments",
    "remove_decorator",
    "remove_imported_name",
    "remove_method_call",
    "replace",
    "set_argument",
    "statement_end",
    "statement_of_call",
    "unbracketed",
    "unwrap",
    "with_unused_imports",
    "without_option",
    "wrap_in_with",
]
