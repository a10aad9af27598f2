"""Rules about training on several GPUs."""
