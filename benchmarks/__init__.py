"""torchlint's own speed: run from the repository, not installed."""
