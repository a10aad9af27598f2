"""``torchlint server``: the language server."""

from __future__ import annotations

from collections.abc import Sequence

from torchlint.commands import Parser, UsageError, environment, given_settings


def parser() -> Parser:
    """Its arguments: those of all commands."""
    return Parser(
        prog="torchlint server",
        description="Run the language server, which editors start: LSP over standard input and output.",
    )


def run(arguments: Sequence[str]) -> int:
    """Serve one editor until it ends the server."""
    options = parser().options(arguments)
    given = given_settings(options)
    try:
        import pygls.lsp.server  # noqa: F401  # not in pygls 1
    except ImportError as error:
        raise UsageError("the language server needs pygls: pip install 'pygls>=2'") from error
    from torchlint.server.process import serve

    serve(given, caches=not environment.is_cache_off())
