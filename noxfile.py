"""The tasks of a contributor: ``nox -l`` lists them. They run in the current environment, except for ``build``."""

from __future__ import annotations

import re
import shutil
from pathlib import Path

import nox

ROOT = Path(__file__).parent

nox.options.default_venv_backend = "none"
nox.options.sessions = ["lint", "type", "test"]


@nox.session
def lint(session: nox.Session) -> None:
    """Check style and format."""
    session.run("ruff", "check", *session.posargs)
    session.run("ruff", "format", "--check")


@nox.session(name="type")
def types(session: nox.Session) -> None:
    """Check types."""
    session.run("mypy", *session.posargs)


@nox.session
def test(session: nox.Session) -> None:
    """Run the tests."""
    session.run("pytest", *session.posargs)


@nox.session
def coverage(session: nox.Session) -> None:
    """Measure how much of the rules and the model the rules' cases run; fail below the floor in pyproject.toml."""
    session.run("coverage", "run", "-m", "pytest", "-n0", "tests/test_rules.py", *session.posargs)
    session.run("coverage", "report")


@nox.session
def docs(session: nox.Session) -> None:
    """Check that the pages match the code, and build the site in ``site/``; ``nox -s docs -- --update`` writes them."""
    session.run("python", "-m", "tools.docs", *session.posargs)
    session.run("zensical", "build", "--strict")


@nox.session
def bench(session: nox.Session) -> None:
    """Measure how torchlint's own time grows with the size of a file."""
    session.run("python", "-m", "benchmarks.growth", *session.posargs)


@nox.session(venv_backend="venv")
def build(session: nox.Session) -> None:
    """Build the release in ``dist/``, check it, and run the wheel; ``nox -s build -- v0.1.0`` checks the tag."""
    session.install("build", "check-wheel-contents", "twine")
    dist = ROOT / "dist"
    shutil.rmtree(dist, ignore_errors=True)
    session.run("python", "-m", "build", "--outdir", str(dist))
    files = [str(path) for path in sorted(dist.iterdir())]
    (wheel,) = (path for path in files if path.endswith(".whl"))
    version = Path(wheel).name.split("-")[1]
    for tag in session.posargs:
        if tag != f"v{version}":
            session.error(f"the tag {tag} is not v{version}, the version of the wheel")
    session.run("twine", "check", "--strict", *files)
    session.run("check-wheel-contents", wheel)
    session.install(wheel)
    session.cd(session.create_tmp())  # not in the checkout: the installed files run
    printed = session.run("torchlint", "--version", silent=True)
    if not re.search(rf"\b{re.escape(version)}\b", str(printed)):
        session.error(f"`torchlint --version` prints {printed!r}")
    session.run("torchlint", "--quiet", "--isolated", str(ROOT / "examples"), success_codes=[1])
