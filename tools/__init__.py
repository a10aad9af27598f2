"""What maintainers run on the repository: ``python -m tools.docs`` keeps the pages in step with the code."""
