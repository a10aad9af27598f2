"""What a rule pack imports: ``Rule``, and the parts of the diagnostics that it yields."""

from torchlint.findings.diagnostic import Applicability, Cause, Diagnostic, Fix, Note, Severity
from torchlint.model.option import Option
from torchlint.rule.rule import HEADINGS, Default, Page, Rule
from torchlint.rule.words import Words
from torchlint.source.ranges import Edit, Place

__all__ = [
    "HEADINGS",
    "Applicability",
    "Cause",
    "Default",
    "Diagnostic",
    "Edit",
    "Fix",
    "Note",
    "Option",
    "Page",
    "Place",
    "Rule",
    "Severity",
    "Words",
]
