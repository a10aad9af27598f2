"""The command line: which command runs, and with which status it ends.

What is imported at the top is what ``torchlint --version`` waits for.
"""

from __future__ import annotations

import os
import sys

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence

_INTERRUPTED = 130


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command line and return the exit status: 0 clean, 1 findings remain, 2 something is at fault."""
    _open_output()
    given = sys.argv[1:] if arguments is None else list(arguments)
    if given == ["--version"]:
        from torchlint import __version__

        try:
            print(f"torchlint {__version__}", flush=True)
        except BrokenPipeError:
            _drop_output()
        return 0
    return _run(given)


def _run(arguments: list[str]) -> int:
    from torchlint.commands import CLEAN, FAULT, UsageError, complain

    try:
        os.getcwd()
    except OSError:
        complain("the current folder does not exist any more")
        return FAULT
    try:
        status = _dispatch(arguments)
        sys.stdout.flush()
        return status
    except UsageError as error:
        complain(str(error))
        return FAULT
    except BrokenPipeError:  # the reader has seen enough, as in `torchlint | head`
        _drop_output()
        return CLEAN
    except OSError as error:  # the disk is full
        _drop_output()
        complain(f"{error.filename or 'the output'}: {error.strerror or error}")
        return FAULT
    except KeyboardInterrupt:
        complain("interrupted")
        return _INTERRUPTED


def _open_output() -> None:
    """Have a standard output and a standard error that take any character, also where the caller has closed them."""
    if sys.stdout is None:
        sys.stdout = open(os.devnull, "w", encoding="utf-8")  # noqa: SIM115
    if sys.stderr is None:
        sys.stderr = open(os.devnull, "w", encoding="utf-8")  # noqa: SIM115
    for stream in (sys.stdout, sys.stderr):
        if hasattr(stream, "reconfigure"):  # a file name or a line of code must not end the run
            stream.reconfigure(errors="backslashreplace")


def _drop_output() -> None:
    """Let what is still to be written to standard output go nowhere: it cannot be written."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


def _dispatch(arguments: list[str]) -> int:
    import importlib

    from torchlint.commands import COMMANDS

    command = arguments[0] if arguments and arguments[0] in COMMANDS else ""
    module = importlib.import_module(f"torchlint.commands.{COMMANDS[command or 'check']}")
    status: int = module.run(arguments[1:] if command else arguments)
    return status
