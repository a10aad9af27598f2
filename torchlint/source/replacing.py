"""A file gets new content wholly or not at all."""

from __future__ import annotations

import contextlib
import os
import signal
from collections.abc import Iterator


def replace_file(path: str, content: bytes, mode: int, owner: tuple[int, int] | None = None) -> None:
    """Put ``content`` in the place of the file ``path``, which need not exist; links are not followed.

    ``mode`` are its permissions, ``owner`` the numbers of its user and group, if they are not those of the process.
    A temporary file next to it takes the content first, so that a crash or a full disk leaves the old content; signals
    that end the process wait until no temporary file is left. Raises OSError.
    """
    import tempfile  # takes long, and most runs write nothing

    with _signals_wait():
        descriptor, temporary = tempfile.mkstemp(dir=os.path.dirname(path), prefix=".torchlint-", suffix=".tmp")
        try:
            with os.fdopen(descriptor, "wb") as file:
                file.write(content)
                file.flush()
                os.fsync(file.fileno())
            os.chmod(temporary, mode)
            if owner is not None:
                os.chown(temporary, *owner)
            os.replace(temporary, path)
        except BaseException:
            with contextlib.suppress(OSError):
                os.unlink(temporary)
            raise


@contextlib.contextmanager
def _signals_wait() -> Iterator[None]:
    if not hasattr(signal, "pthread_sigmask"):  # Windows
        yield
        return
    previous = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT, signal.SIGTERM, signal.SIGHUP})
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, previous)
