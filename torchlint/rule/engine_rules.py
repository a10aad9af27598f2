"""The two diagnostics that the engine itself gives; as rules, so that they are listed, explained and ignored alike."""

from __future__ import annotations

from torchlint.findings.codes import INVALID_SYNTAX, UNUSED_SUPPRESSION
from torchlint.rule.rule import Rule

#: The family of the rules here.
ENGINE = "engine"


class _EngineRule(Rule):
    """A rule whose findings the engine itself reports."""

    @classmethod
    def family(cls) -> str:
        """Of no folder of rules."""
        return ENGINE


class UnusedSuppression(_EngineRule):
    """A `noqa` comment names a torchlint code that suppresses nothing here.

    ## What it does
    Reports codes in `# noqa: TL...` and `# torchlint: noqa: TL...` comments where the rule ran and found nothing.
    A bare `# noqa` is never reported, nor is the code of a rule that was not enabled: another run, or another tool,
    may need it.

    ## Why it is slow
    It is not: a stale suppression hides the next real finding on its line, which may be slow.

    ## Example
    ```python
    loader = DataLoader(data, num_workers=4)  # noqa: TL101
    ```

    ## Use instead
    ```python
    loader = DataLoader(data, num_workers=4)
    ```

    ## Fix safety
    Safe: the fix removes the code, or the comment if nothing else is left of it. Codes of other tools and other text
    in the comment stay.

    ## When to ignore
    While a rule's verdict changes with the torch version that the project targets.

    ## References
    - [Suppressing errors in ruff](https://docs.astral.sh/ruff/linter/#error-suppression), whose comments these follow
    """

    code, name = UNUSED_SUPPRESSION


class InvalidSyntax(_EngineRule):
    """A file cannot be read as Python 3 source text.

    ## What it does
    Reports a file that is not Python 3, not in the encoding it claims, binary, too large or too deeply nested. No other
    rule can say anything about it. It is reported whatever is selected, unless it is ignored. The message says so where
    Python can read a file and only torchlint's parser cannot.

    A file in which no enabled rule could find anything is not parsed, so that its syntax is not judged; a file that is
    named on the command line always is.

    ## Why it is slow
    It is not: what cannot be read cannot be checked.

    ## Example
    ```python
    print "epoch", epoch
    ```

    ## Use instead
    ```python
    print("epoch", epoch)
    ```

    ## Fix safety
    There is no fix.

    ## When to ignore
    Exclude such files instead: `extend-exclude = ["legacy/*"]`.

    ## References
    - [Full grammar specification](https://docs.python.org/3/reference/grammar.html)
    """

    code, name = INVALID_SYNTAX


#: In the order of their codes.
ENGINE_RULES: tuple[Rule, ...] = (UnusedSuppression(), InvalidSyntax())
