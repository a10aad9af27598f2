"""Findings of all rules in pinned packages and repositories, compared with those that are committed."""
