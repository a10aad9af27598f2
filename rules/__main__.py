"""Creates the files of a new rule: ``python -m rules CODE NAME FAMILY``, run in the repository."""

from __future__ import annotations

import re
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent

RULE = '''\
from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from torchlint import edits
from torchlint.rule import Applicability, Diagnostic, Fix, Rule

if TYPE_CHECKING:
    from torchlint.model.module import Module


class {class_name}(Rule):
    """TODO: one sentence: the construct and its cost.

    ## What it does
    TODO

    ## Why it is slow
    TODO

    ## Example
    ```python
    TODO
    ```

    ## Use instead
    ```python
    TODO
    ```

    ## Fix safety
    TODO

    ## When to ignore
    TODO

    ## References
    - TODO
    """

    code = "{code}"
    name = "{name}"
    words = ("TODO",)  # files without these words are not parsed for this rule
    demo = ("GPU", "CPU")

    def check(self, module: Module) -> Iterator[Diagnostic]:
        for call in module.calls("torch.TODO"):
            argument = call.argument("TODO")
            if argument.literal() != "True":
                continue
            edited = edits.set_argument(module, call.node, "TODO", argument, "False")
            fix = None if edited is None else Fix("TODO", edited, Applicability.UNSAFE, caution="TODO")
            yield self.diagnostic(module, call.node, "TODO", label="TODO", fix=fix)
'''

CASES = """\
# === fires: TODO
import torch

# !{code}
torch.TODO(TODO=True)
# === fixed unsafe
import torch

torch.TODO(TODO=False)
# === silent: TODO
import torch

torch.TODO(**options)
"""

PAIR = '''\
"""TODO: what the program is."""

from __future__ import annotations

import torch

SIZES = {"cuda": {"TODO rows": 1.0}, "cpu": {"TODO rows": 0.1}}


def prepare(device: str, size: float = 1.0) -> torch.Tensor:
    """Untimed: create models and data with fixed seeds; `size` scales the work, 1.0 suits a data-centre GPU."""
    torch.manual_seed(0)
    raise NotImplementedError


def work(state: torch.Tensor) -> torch.Tensor:
    """Timed: return what the program computes, which is compared between before and after."""
    raise NotImplementedError


def main() -> None:
    """Run once on the available device."""
    device = "cuda" if torch.cuda.is_available() else "cpu"
    print(work(prepare(device)))


if __name__ == "__main__":
    main()
'''


def scaffold(root: Path, code: str, name: str, family: str) -> list[Path]:
    """Write the files of a new rule below ``root`` and return them. Raises ValueError if one cannot be created."""
    if not re.fullmatch(r"TL[1-9]\d\d", code):
        raise ValueError(f"{code}: a code consists of TL and three digits, as in TL407")
    if not re.fullmatch(r"[a-z][a-z0-9]*(-[a-z0-9]+)*", name):
        raise ValueError(f"{name}: a name consists of lower-case words joined by hyphens, as in zeroed-gradients")
    folder = root / "rules" / family
    if not folder.is_dir():
        known = ", ".join(sorted(path.parent.name for path in (root / "rules").glob("*/__init__.py")))
        raise ValueError(f"{family}: unknown family; the families are {known}")
    class_name = "".join(word.capitalize() for word in name.split("-"))
    files = {
        folder / f"{name.replace('-', '_')}.py": RULE.format(class_name=class_name, code=code, name=name),
        root / "fixtures" / name / "cases.py": CASES.format(code=code),
        root / "fixtures" / name / "before.py": PAIR,
        root / "fixtures" / name / "after.py": PAIR,
    }
    missing = {path: text for path, text in files.items() if not path.exists()}
    for path, text in missing.items():
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, encoding="utf-8")
    return list(missing)


def main() -> int:
    """The command; existing files are not changed."""
    if len(sys.argv) != 4:
        print("usage: python -m rules CODE NAME FAMILY, as in: python -m rules TL407 zeroed-gradients autograd")
        return 2
    try:
        made = scaffold(ROOT, *sys.argv[1:])
    except ValueError as error:
        print(f"error: {error}", file=sys.stderr)
        return 2
    for path in made:
        print(f"created {path.relative_to(ROOT)}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
