"""``python -m torchlint``."""

import sys


def _forget_working_directory() -> None:
    """Remove the current folder from the import path, before any import that a module there could shadow.

    ``python -m`` puts it first. It may be a checkout whose `rich.py` or `argparse.py` must not run. An entry of
    `PYTHONPATH` stays.
    """
    import os  # imported at the start of every interpreter

    try:
        here = os.getcwd()
    except OSError:  # it does not exist any more
        here = ""
    if not getattr(sys.flags, "safe_path", False) and sys.path and sys.path[0] in ("", here):
        del sys.path[0]
    os.environ.setdefault("PYTHONSAFEPATH", "1")  # the same for worker processes


if __name__ == "__main__":
    _forget_working_directory()
    from torchlint.cli import main

    sys.exit(main())
