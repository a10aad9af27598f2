"""The command line: which command runs, and with which status it ends."""

from __future__ import annotations

import importlib
import os
import sys
from collections.abc import Sequence

from torchlint.commands import CLEAN, COMMANDS, FAULT, UsageError, complain

_INTERRUPTED = 130


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command line and return the exit status: 0 clean, 1 findings remain, 2 something is at fault."""
    for stream in (sys.stdout, sys.stderr):
        if hasattr(stream, "reconfigure"):  # a file name or a line of code must not end the run
            stream.reconfigure(errors="backslashreplace")
    try:
        status = _dispatch(list(sys.argv[1:] if arguments is None else arguments))
        sys.stdout.flush()
        return status
    except UsageError as error:
        complain(str(error))
        return FAULT
    except BrokenPipeError:  # the reader has seen enough, as in `torchlint | head`
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return CLEAN
    except KeyboardInterrupt:
        complain("interrupted")
        return _INTERRUPTED


def _dispatch(arguments: list[str]) -> int:
    command = arguments[0] if arguments and arguments[0] in COMMANDS else ""
    module = importlib.import_module(f"torchlint.commands.{COMMANDS[command or 'check']}")
    status: int = module.run(arguments[1:] if command else arguments)
    return status
