"""The process of the server: its streams and its exit status."""

from __future__ import annotations

import logging
import os
import signal
import sys
from typing import NoReturn

from torchlint.server.handlers import make_server
from torchlint.settings.resolver import Given

#: Every how many seconds of Python code another thread gets its turn: the reader must not wait for an analysis.
_SWITCH_INTERVAL = 0.001


def serve(given: Given, *, caches: bool) -> NoReturn:
    """Serve one client over standard input and output until it ends the server, and end the process.

    The protocol has both streams for itself: what a plugin prints goes to standard error. The process ends without
    waiting for an analysis under way: Python would stop its thread within the parser, which aborts the process.
    """
    if hasattr(signal, "SIGINT"):
        signal.signal(signal.SIGINT, signal.SIG_DFL)
    logging.getLogger("pygls").setLevel(logging.CRITICAL)  # what matters is logged at the client
    stdin, stdout = os.fdopen(os.dup(0), "rb"), os.fdopen(os.dup(1), "wb")
    with open(os.devnull, "rb") as nothing:
        os.dup2(nothing.fileno(), 0)
    os.dup2(2, 1)
    sys.stdout = sys.stderr
    sys.setswitchinterval(_SWITCH_INTERVAL)
    server = make_server(given, caches=caches)
    server.start_io(stdin, stdout)
    sys.stderr.flush()
    os._exit(0 if server.was_shut_down else 1)
