"""Rules about gradients and inference."""
