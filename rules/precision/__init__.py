"""Rules about precision and dtypes."""
