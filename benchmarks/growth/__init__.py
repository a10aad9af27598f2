"""Shapes of code, each of any size: ``SHAPES`` has them all, in the order in which the benchmark runs them."""

from importlib import import_module

from .shape import SHAPES

__all__ = ["SHAPES"]

for _subject in ("definitions", "scopes", "chains", "steps", "uses", "texts"):
    import_module(f".{_subject}", __name__)  # its shapes are registered
