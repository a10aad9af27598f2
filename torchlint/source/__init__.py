"""The text of a file: decoding, syntax, notebooks."""
