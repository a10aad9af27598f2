"""``torchlint server``: the language server, which speaks LSP over standard input and output."""
