"""The PyTorch rule pack: ``rules/<family>/<rule_name>.py``, one rule per file, discovered by its place."""
