"""Times the before/after programs of the rules: ``python -m validation``. Needs torch and rich, not the linter."""
