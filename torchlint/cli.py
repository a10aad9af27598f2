"""The command line: which command runs, and with which status it ends.

What is imported at the top is what ``torchlint --version`` waits for.
"""

from __future__ import annotations

import gc
import os
import sys

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence

_INTERRUPTED = 130
#: Options that may be given before the command.
_SWITCHES = frozenset({"-q", "--quiet", "-s", "--silent", "-v", "--verbose", "--isolated"})
_WITH_VALUE = ("--color", "--config")


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command line and return the exit status: 0 no findings, 1 findings remain, 2 an error."""
    _open_output()
    given = sys.argv[1:] if arguments is None else list(arguments)
    if given in (["--version"], ["-V"]):
        from torchlint import __version__

        try:
            print(f"torchlint {__version__}", flush=True)
        except BrokenPipeError:
            _drop_output()
        return 0
    if arguments is not None:
        return _run(given)
    gc.disable()  # the process ends after this: nearly everything that is imported and made lives until then
    try:
        return _run(given)
    finally:
        gc.freeze()  # else Python looks at all of it once more before it ends


def _run(arguments: list[str]) -> int:
    from torchlint.commands import CLEAN, FAULT, UsageError, report_error

    try:
        os.getcwd()
    except OSError:
        report_error("the current folder no longer exists")
        return FAULT
    try:
        status = _dispatch(arguments)
        sys.stdout.flush()
        return status
    except UsageError as error:
        error.report()
        return FAULT
    except BrokenPipeError:  # the reader has closed the pipe, as in `torchlint | head`
        _drop_output()
        return CLEAN
    except OSError as error:  # the disk is full
        _drop_output()
        report_error(f"{error.filename or 'the output'}: {error.strerror or error}")
        return FAULT
    except KeyboardInterrupt:
        report_error("interrupted")
        return _INTERRUPTED


def _open_output() -> None:
    """Make standard output and standard error accept any character, even if the caller has closed them."""
    if sys.stdout is None:
        sys.stdout = open(os.devnull, "w", encoding="utf-8")  # noqa: SIM115
    if sys.stderr is None:
        sys.stderr = open(os.devnull, "w", encoding="utf-8")  # noqa: SIM115
    for stream in (sys.stdout, sys.stderr):
        if hasattr(stream, "reconfigure"):  # a file name or a line of code must not end the run
            stream.reconfigure(errors="backslashreplace")


def _drop_output() -> None:
    """Discard what remains to be written to standard output: it cannot be written."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


def _dispatch(arguments: list[str]) -> int:
    from torchlint.commands import COMMANDS, SYNONYMS, load

    begin = _behind_global_options(arguments)
    word = arguments[begin] if begin < len(arguments) else ""
    command = SYNONYMS.get(word, word)
    if command in COMMANDS:
        arguments = arguments[:begin] + arguments[begin + 1 :]
    else:
        command = "check"
        _check_spelling(word)
    status: int = load(command).run(arguments)
    return status


def _behind_global_options(arguments: list[str]) -> int:
    """The index of the first argument that is not an option which may be given before the command."""
    index = 0
    while index < len(arguments):
        if arguments[index] in _WITH_VALUE:
            index += 2
        elif arguments[index].startswith(tuple(f"{name}=" for name in _WITH_VALUE)) or arguments[index] in _SWITCHES:
            index += 1
        else:
            break
    return index


def _check_spelling(word: str) -> None:
    """Raise UsageError if the first word is not an option or a path, but resembles a command."""
    from torchlint.commands import COMMANDS, UsageError

    if not word.replace("-", "").isalpha() or word.startswith("-") or os.path.lexists(word):
        return
    import difflib

    close = difflib.get_close_matches(word.lower(), COMMANDS, n=1, cutoff=0.7)
    if close:
        raise UsageError(f"`{word}` is not a command, a file or a folder; did you mean the command `{close[0]}`?")
