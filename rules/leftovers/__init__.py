"""Rules about what debugging and measuring left behind."""
