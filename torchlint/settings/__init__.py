"""What can be set, where it is read from, and the files to check under it."""
