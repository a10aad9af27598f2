"""Names that other files take from a file: fixes leave them as they are."""

from __future__ import annotations

from pathlib import Path

import pytest

import torchlint
from torchlint.engine.fixer import fix
from torchlint.project.context import forget
from torchlint.source.source import Source

AUX = "from torch.cuda.amp import autocast\n\n\ndef run(model, x):\n    with autocast():\n        return model(x)\n"


@pytest.mark.parametrize(
    ("script", "stays"),
    [
        ("from aux import autocast\n\nwith autocast(enabled=False):\n    print(1)\n", True),
        ("from aux import *\n\nwith autocast(enabled=False):\n    print(1)\n", True),
        ("import aux\n\nwith aux.autocast(enabled=False):\n    print(1)\n", True),
        ("from middle import autocast\n\nwith autocast(enabled=False):\n    print(1)\n", True),
        ("from aux import run\n\nrun(print, 1)\n", False),
        ("import aux\n\naux.run(print, 1)\n", False),
        ("from torch.amp import autocast\nfrom aux import run\n\nrun(print, autocast('cuda'))\n", False),
    ],
)
def test_an_import_stays_if_another_file_takes_the_name(tmp_path: Path, script: str, stays: bool) -> None:
    (tmp_path / ".git").mkdir()
    (tmp_path / "aux.py").write_text(AUX)
    (tmp_path / "middle.py").write_text("from aux import *\n")
    (tmp_path / "script.py").write_text(script)
    forget()
    settings = torchlint.load_settings(None, {"select": ["TL303"]})
    text = fix(Source.from_text(AUX, str(tmp_path / "aux.py")), settings).source.text
    if stays:
        assert "from torch.cuda.amp import autocast\n" in text
        assert 'with torch.amp.autocast("cuda"):' in text
    else:
        assert text == AUX.replace("torch.cuda.amp", "torch.amp").replace("autocast()", 'autocast("cuda")')
