"""Rules about copies between CPU and GPU, and about synchronization."""
