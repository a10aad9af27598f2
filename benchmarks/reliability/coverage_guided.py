"""``python -m benchmarks.reliability.coverage_guided TARGET``: a parser under atheris, which seeks inputs by coverage.

    pip install atheris
    python -m benchmarks.reliability.coverage_guided notebook --seconds 300

It ends at the first input of which something does not hold, and says which it is.
"""

from __future__ import annotations

import argparse
import sys
import tempfile
from pathlib import Path


def main() -> int:
    """Run the command. atheris ends the process by itself when the time is over."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("target", help="a parser of `targets`")
    parser.add_argument("--seconds", type=int, default=60)
    parser.add_argument("--seed", type=int, default=1)
    arguments = parser.parse_args()
    try:
        import atheris
    except ImportError:
        print("atheris is not installed: pip install atheris", file=sys.stderr)
        return 2
    with atheris.instrument_imports(include=["torchlint", "json", "tomllib", "configparser"]):
        from benchmarks.reliability.targets import TARGETS
    targets = {target.name: target for target in TARGETS}
    if arguments.target not in targets:
        print(f"no such target; there are {', '.join(targets)}", file=sys.stderr)
        return 2
    target = targets[arguments.target]
    with tempfile.TemporaryDirectory() as corpus:
        for number, seed in enumerate(target.seeds):
            Path(corpus, str(number)).write_bytes(seed)
        options = [f"-max_total_time={arguments.seconds}", f"-seed={arguments.seed}", "-max_len=1000", "-timeout=10"]
        atheris.Setup([sys.argv[0], corpus, *options, "-print_final_stats=1"], target.holds)
        atheris.Fuzz()
    return 0


if __name__ == "__main__":
    sys.exit(main())
