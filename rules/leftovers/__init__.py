"""Rules about code that is left over from debugging and measuring."""
