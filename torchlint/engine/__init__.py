"""Check, fix and report files: one, or many in processes."""
