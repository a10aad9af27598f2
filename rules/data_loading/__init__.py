"""Rules about datasets and data loaders."""
