"""The PyTorch rule pack: ``rules/<family>/<rule_name>.py``, one rule a file, found by being there."""
