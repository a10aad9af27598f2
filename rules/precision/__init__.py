"""Rules about number formats and mixed precision."""
