"""Measures what fixes gain in the user's own script: the script as it is and with fixes, side by side."""
