"""The project of a file: the files it may depend on, their imports, definitions and identifiers.

Everything here comes from texts and Python's own parser. Nothing of the model is imported.
"""
