"""Edits of calls: their arguments, and calls that are removed."""

from __future__ import annotations

from typing import TYPE_CHECKING

from torchlint.edits.text import (
    Edits,
    blanks_around,
    end_of_row,
    end_with_parentheses,
    indentation_at,
    newline_of,
    next_token,
    replace,
    unbracketed,
)
from torchlint.source.ranges import Edit

if TYPE_CHECKING:
    import libcst as cst

    from torchlint.model.module import Module
    from torchlint.model.syntax.calls import Argument, Call


#: A row of so many characters is long in no file.
_ROW = 79


def add_keyword(module: Module, call: cst.Call, name: str, value: str) -> Edits | None:
    """Pass ``name=value`` as the last argument of ``call``, in the style of the arguments already there."""
    import libcst as cst

    text = f"{name}={value}"
    if not call.args:  # where `prepend_argument` inserts too, so that two fixes are not made at once
        opening = _opening(module, call)
        return (Edit(opening, opening, text),)
    close = module.span(call)[1] - 1
    last = call.args[-1]
    if last.star == "**" or (isinstance(last.value, cst.GeneratorExp) and not module.is_parenthesized(last.value)):
        return None
    end = _argument_end(module, last)
    tail = module.text[end:close]
    comma = module.text[next_token(module, end)] == ","
    after = next_token(module, end) + 1 if comma else end
    own_row = module.row_at(_argument_start(module, last)) != module.row_at(
        _argument_start(module, call.args[-2]) if len(call.args) > 1 else module.span(call)[0]
    )
    if not own_row or ("\n" not in tail and "\r" not in tail):
        between = _break_before(module, call, last, len(text)) or " "
        return (Edit(after, after, f"{between}{text}" if comma else f",{between}{text}"),)
    newline = newline_of(module)
    indent = indentation_at(module, _argument_start(module, last))
    row_end = end_of_row(module, after)
    line = f"{newline}{indent}{text}{',' if comma else ''}"
    if module.text[after:row_end].strip():  # a comment follows: it stays with its argument
        return (*(() if comma else (Edit(end, end, ","),)), Edit(row_end, row_end, line))
    return (Edit(after, after, line if comma else "," + line),)


def prepend_argument(module: Module, call: cst.Call, text: str) -> Edits:
    """Pass ``text`` as the first argument of ``call``, on a row of its own if the first one has that."""
    if not call.args:
        opening = _opening(module, call)
        return (Edit(opening, opening, text),)
    first = _argument_start(module, call.args[0])
    begin = module.line_start(first)
    own_row = not module.text[begin:first].strip() and begin > module.span(call)[0]
    behind = f",{newline_of(module)}{module.text[begin:first]}" if own_row else ", "
    return (Edit(first, first, text + behind),)


def name_argument(module: Module, argument: cst.Arg, name: str) -> Edits:
    """Pass a positional argument by keyword."""
    start = _argument_start(module, argument)
    return (Edit(start, start, f"{name}="),)


def set_argument(module: Module, call: cst.Call, name: str, argument: Argument, value: str) -> Edits | None:
    """Give an argument a new value where it is passed, or add it as a keyword where it is absent."""
    if argument.node is not None:
        return replace(module, argument.node.value, value)
    if not argument.absent:
        return None
    if any(item.star == "**" for item in call.args):
        return _add_before_unpacked(module, call, f"{name}={value}")
    return add_keyword(module, call, name, value)


def _add_before_unpacked(module: Module, call: cst.Call, text: str) -> Edits:
    """Pass a keyword before the dictionary that the call unpacks, which is known not to contain it."""
    start = _argument_start(module, next(item for item in call.args if item.star == "**"))
    begin = module.line_start(start)
    own_row = not module.text[begin:start].strip() and begin > module.span(call)[0]
    behind = f",{newline_of(module)}{module.text[begin:start]}" if own_row else ", "
    return (Edit(start, start, text + behind),)


def remove_argument(module: Module, call: cst.Call, argument: cst.Arg) -> Edits | None:
    """Drop one argument with its comma; None where a comment would go with it."""
    position = next((i for i, item in enumerate(call.args) if item is argument), -1)
    if position < 0:
        return None
    if position + 1 < len(call.args):
        start, end = _argument_start(module, argument), _argument_start(module, call.args[position + 1])
    elif position > 0:
        start, end = _argument_end(module, call.args[position - 1]), _argument_end(module, argument)
    else:  # nothing remains between the parentheses, neither a comma nor an empty row
        start, end = _opening(module, call), module.span(call)[1] - 1
    if "#" in module.text[start:end].replace(module.code(argument.value), ""):
        return None
    return (Edit(start, end, ""),)


def without_option(module: Module, call: Call, option: str) -> Edits | None:
    """Drop the argument of this name; None if it is in a dictionary that the call unpacks."""
    argument = call.argument(option).node
    return None if argument is None else remove_argument(module, call.node, argument)


def remove_arguments(module: Module, call: cst.Call) -> Edits | None:
    """Drop the parentheses of a call with all in them; None where a comment would go with them."""
    start, end = end_with_parentheses(module, call.func), module.span(call)[1]
    values = "".join(module.code(argument.value) for argument in call.args)
    return None if module.text[start:end].count("#") > values.count("#") else (Edit(start, end, ""),)


def remove_method_call(module: Module, call: cst.Call) -> Edits | None:
    """Leave ``x`` of ``x.method(...)``; None where a comment would go with the rest."""
    import libcst as cst

    if not isinstance(call.func, cst.Attribute) or module.is_parenthesized(call.func):
        return None
    start, end = end_with_parentheses(module, call.func.value), module.span(call)[1]
    after = blanks_around(module, start, end, module.text[start - 1])[1]
    return None if "#" in module.text[start:end] else (Edit(start, end, after),)


def unwrap(module: Module, call: cst.Call, argument: cst.BaseExpression) -> Edits | None:
    """Put an argument of ``call`` in the place of the call; None where a comment would go with the rest."""
    import libcst as cst

    item = module.tree.parent(argument)
    if not isinstance(item, cst.Arg):
        return None
    start, end = module.span(call)
    first, last = module.span(argument)[0], module.span(argument)[1]
    code = module.text[first:last]
    before, after = blanks_around(module, start, end, code)
    plain = isinstance(argument, (cst.Name, cst.Attribute, cst.Call, cst.Subscript))
    if not plain or unbracketed(code) != code:
        before, after = "(", ")"
    if "#" in module.text[start:first] or "#" in module.text[last:end]:
        return None
    return Edit(start, first, before), Edit(last, end, after)


def _break_before(module: Module, call: cst.Call, last: cst.Arg, length: int) -> str:
    """The newline and indentation before an argument of some length behind ``last``; empty if it fits into the row.

    It fits if the row gets no longer than others of the file. Only a call that is spread over rows gets one more.
    """
    start = _argument_start(module, last)
    begin, end = module.line_start(start), end_of_row(module, start)
    indent = indentation_at(module, start)
    width = end - begin + len(", ") + length
    if width <= _ROW or "#" in module.text[start:end]:
        return ""
    if begin + len(indent) not in {_argument_start(module, argument) for argument in call.args[1:]}:
        return ""
    fits = any(len(row) >= width for row in module.own_text.splitlines())
    return "" if fits else newline_of(module) + indent


def _opening(module: Module, call: cst.Call) -> int:
    """The offset behind the parenthesis that opens the arguments."""
    opening = next_token(module, module.span(call.func)[1])
    while module.text[opening] == ")":  # around the function
        opening = next_token(module, opening + 1)
    return opening + 1


def _argument_start(module: Module, argument: cst.Arg) -> int:
    """The offset of an argument's name, stars or parentheses, found from what is before it."""
    import libcst as cst

    call = module.tree.parent(argument)
    assert isinstance(call, cst.Call)
    position = next(index for index, item in enumerate(call.args) if item is argument)
    if position == 0:
        return next_token(module, _opening(module, call))
    comma = next_token(module, _argument_end(module, call.args[position - 1]))
    return next_token(module, comma + 1)


def _argument_end(module: Module, argument: cst.Arg) -> int:
    """The offset behind an argument and its parentheses: those that are closed before the call is."""
    call = module.tree.parent(argument)
    close = module.span(call)[1] - 1
    end = module.span(argument.value)[1]
    while (after := next_token(module, end)) < close and module.text[after] == ")":
        end = after + 1
    return end
