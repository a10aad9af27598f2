"""Code that Python runs in the process of a user's script, when it starts."""
