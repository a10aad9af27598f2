"""Maps the folders ``rules/`` and ``fixtures/`` to packages; everything else is in pyproject.toml."""

from setuptools import find_packages, setup

setup(
    package_dir={"torchlint_rules": "rules", "torchlint_pairs": "fixtures"},
    packages=[
        *find_packages(include=["torchlint", "torchlint.*"]),
        "torchlint_rules",
        *(f"torchlint_rules.{family}" for family in find_packages("rules")),
        "torchlint_pairs",
    ],
)
