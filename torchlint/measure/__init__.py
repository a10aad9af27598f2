"""Times pairs of programs: needs torch and rich, nothing of the linter but `torchlint.source`."""
