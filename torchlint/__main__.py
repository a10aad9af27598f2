"""``python -m torchlint``."""

from __future__ import annotations

import sys

from torchlint.cli import main

if __name__ == "__main__":
    sys.exit(main())
