"""The two diagnostics of the engine itself, as rules: they are listed, explained and ignored like others."""

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
    """A `noqa` comment contains a torchlint code that suppresses nothing.

    ## What it does
    Reports codes in `# noqa: TL...` and `# torchlint: noqa: TL...` comments if the rule ran and found nothing. A bare
    `# noqa` is never reported, and neither is the code of a disabled rule: another run or another tool may need it.

    ## Why it is slow
    The comment is not slow itself, but it hides the next real finding on its line.

    ## Example
    ```python
    loader = DataLoader(data, num_workers=4)  # noqa: TL101
    ```

    ## Use instead
    ```python
    loader = DataLoader(data, num_workers=4)
    ```

    ## Fix safety
    Safe: the fix removes the code, or the comment if it contains nothing else. Codes of other tools and other text in
    the comment remain.

    ## When to ignore
    Ignore it if a rule reports the line only for some of the torch versions that the project targets.

    ## References
    - [Suppressing errors in ruff](https://docs.astral.sh/ruff/linter/#error-suppression), whose comments these follow
    """

    code, name = UNUSED_SUPPRESSION


class InvalidSyntax(_EngineRule):
    """A file is not valid Python 3.

    ## What it does
    Reports a file that is not valid Python 3, is not in its declared encoding, is binary, is too large or is too deeply
    nested. No other rule can check such a file. It is reported with any selection of rules, unless it is ignored. If
    Python accepts a file and only torchlint's parser does not, the message says so.

    Every file that imports torch is checked for valid syntax, even if no enabled rule can find anything in it. Of the
    other files, those in which no enabled rule can find anything are not parsed, which saves time in projects with
    little torch code. A file that is named on the command line is always parsed.

    ## Why it is slow
    It is not slow, but torchlint cannot check it.

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
    Do not ignore the rule; exclude such files: `extend-exclude = ["legacy/*"]`.

    ## References
    - [Full grammar specification](https://docs.python.org/3/reference/grammar.html)
    """

    code, name = INVALID_SYNTAX


#: In the order of their codes.
ENGINE_RULES: tuple[Rule, ...] = (UnusedSuppression(), InvalidSyntax())
