"""The modules of a project: which file an import means, and what a file is called."""

from __future__ import annotations

import os
from pathlib import Path

import pytest
from project_files import GUARD, make, names, resolved

from torchlint.project.project import Project
from torchlint.settings.resolver import Resolver


@pytest.mark.parametrize(
    ("files", "importer", "module", "expected"),
    [
        (["train.py", "data.py"], "train.py", "data", "data.py"),
        (["train.py", "pkg/__init__.py", "pkg/a.py"], "train.py", "pkg.a", "pkg/a.py"),
        (["train.py", "pkg/__init__.py"], "train.py", "pkg", "pkg/__init__.py"),
        (["train.py", "space/a.py"], "train.py", "space.a", "space/a.py"),
        (["train.py", "space/a.py"], "train.py", "space", None),
        (["train.py", "pkg.py", "pkg/__init__.py"], "train.py", "pkg", "pkg/__init__.py"),
        (["src/pkg/__init__.py", "src/pkg/a.py", "tests/test_a.py"], "tests/test_a.py", "pkg.a", "src/pkg/a.py"),
        (["lib/models.py", "tools/run.py"], "tools/run.py", "models", "lib/models.py"),
        (["pkg/__init__.py", "pkg/a.py", "pkg/b.py"], "pkg/a.py", ".b", "pkg/b.py"),
        (["pkg/__init__.py", "pkg/s/__init__.py", "pkg/s/a.py", "pkg/b.py"], "pkg/s/a.py", "..b", "pkg/b.py"),
        (["pkg/__init__.py", "pkg/a.py"], "pkg/a.py", ".", "pkg/__init__.py"),
        (["pkg/__init__.py", "pkg/a.py"], "pkg/a.py", "...x", None),
        (["train.py"], "train.py", "torch", None),
        (["x/train.py", "x/logging.py", "a.py"], "a.py", "logging", None),
        (["tools/a.py", "elsewhere/helpers.py"], "tools/a.py", "helpers", None),
        (["project/tools/a.py", "project/helpers.py"], "project/tools/a.py", "helpers", "project/helpers.py"),
        (["a.py"], "a.py", "", None),
        (["a.py", "b/c.py"], "a.py", "b/c", None),
        (["a.py", "b/c.py"], "a.py", "b..c", None),
    ],
)
def test_modules_are_found_as_python_would(
    tmp_path: Path, files: list[str], importer: str, module: str, expected: str | None
) -> None:
    assert resolved(make(tmp_path, dict.fromkeys(files, "")), module, importer) == expected


def test_the_folder_of_the_script_comes_first(tmp_path: Path) -> None:
    project = make(
        tmp_path,
        {
            "utils.py": "",
            "one/train.py": f"import utils, model\n{GUARD}",
            "one/utils.py": "",
            "one/model.py": "import utils\n",
            "main.py": f"import utils\n{GUARD}",
        },
    )
    assert resolved(project, "utils", "one/train.py") == "one/utils.py"
    assert resolved(project, "utils", "one/model.py") == "one/utils.py"
    assert resolved(project, "utils", "main.py") == "utils.py"


def test_what_differs_between_programs_is_unknown(tmp_path: Path) -> None:
    files = dict.fromkeys(("one/utils.py", "two/utils.py"), "")
    files |= {f"{folder}/train.py": f"import utils\nfrom shared import f\n{GUARD}" for folder in ("one", "two")}
    project = make(tmp_path, {**files, "shared.py": "import utils\n"})
    assert resolved(project, "utils", "shared.py") is None
    assert resolved(project, "utils", "two/train.py") == "two/utils.py"


def test_a_self_test_of_a_module_counts_less_than_a_script(tmp_path: Path) -> None:
    project = make(
        tmp_path,
        {
            "train.py": f"from models.net import Net\n{GUARD}",
            "utils.py": "",
            "models/utils.py": "",
            "models/net.py": f"import utils\n{GUARD}",
        },
    )
    assert resolved(project, "utils", "models/net.py") == "utils.py"


def test_names_of_installed_packages_are_the_projects_own_only_on_its_path(tmp_path: Path) -> None:
    project = make(
        tmp_path,
        {
            "main.py": f"import datasets\nimport lib.models\n{GUARD}",
            "datasets/__init__.py": "",
            "inner/nets/torch.py": "",
            "inner/nets/net.py": "import torch\n",
            "types.py": "",
            "other/a.py": "import types\n",
        },
    )
    assert resolved(project, "datasets", "main.py") == "datasets/__init__.py"
    assert resolved(project, "torch", "inner/nets/net.py") is None
    assert resolved(project, "types", "main.py") == "types.py"
    assert resolved(project, "types", "other/a.py") is None


@pytest.mark.parametrize(
    "statement",
    [
        "sys.path.append(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))",
        "sys.path.insert(0, os.path.join(os.path.dirname(__file__), '..'))",
        "sys.path.append('..')",
        "here = os.path.dirname(__file__)\nsys.path.insert(0, os.path.join(here, os.pardir))",
        "sys.path.append(str(Path(__file__).resolve().parent.parent))",
        "sys.path.append(str(Path(__file__).parents[1]))",
        "sys.path += []\nsys.path.extend([os.path.split(os.path.dirname(__file__))[0]])",
        "def add(path):\n    sys.path.insert(0, path)\nadd(os.path.join(os.path.dirname(__file__), '..'))",
        "class Config:\n    root = os.path.join(os.path.dirname(__file__), '..')\ncfg = Config()\n"
        "sys.path.insert(0, os.path.join(cfg.root, '.'))",
    ],
)
def test_folders_added_to_the_path_count(tmp_path: Path, statement: str) -> None:
    project = make(
        tmp_path,
        {
            "work/tools/train.py": f"import os, sys\n{statement}\nimport core.net\n{GUARD}",
            "work/core/net.py": "import helper\n",
            "work/helper.py": "",
            "helper.py": "",
        },
    )
    assert resolved(project, "core.net", "work/tools/train.py") == "work/core/net.py"
    assert resolved(project, "helper", "work/core/net.py") == "work/helper.py"


def test_a_path_that_an_imported_file_adds_counts(tmp_path: Path) -> None:
    added = "import os, sys\nsys.path.insert(0, os.path.join(os.path.dirname(__file__), '..', 'code'))\n"
    project = make(
        tmp_path, {"tools/_init.py": added, "tools/run.py": f"import _init\nimport net\n{GUARD}", "code/net.py": ""}
    )
    assert resolved(project, "net", "tools/run.py") == "code/net.py"
    assert names(project, project.programs(tmp_path / "code/net.py")) == ["tools/run.py"]


@pytest.mark.parametrize(
    ("files", "expected"),
    [
        (["models/decoder.py"], "src/models/decoder.py"),
        (["models/decoder/__init__.py"], "src/models/decoder/__init__.py"),
        (["models/decoder.py", "../egs/decoder.py"], "src/models/decoder.py"),
        (["bin/lib/decoder.py", "models/decoder.py"], "src/bin/lib/decoder.py"),
        (["models/decoder.py", "layers/decoder.py"], None),
        (["../egs/decoder.py"], None),
        (["models/decoders.py"], None),
    ],
    ids=["next to it", "package", "nearer", "below it", "two", "far", "none"],
)
def test_the_only_module_of_a_name_is_found_wherever_it_is(
    files: list[str], expected: str | None, tmp_path: Path
) -> None:
    """``PYTHONPATH`` names its folder, which no file of the project does."""
    paths = [os.path.normpath(f"src/{file}") for file in files]
    project = make(tmp_path, {"src/bin/train.py": f"import decoder\n{GUARD}", **dict.fromkeys(paths, "")})
    assert resolved(project, "decoder", "src/bin/train.py") == expected


def test_the_only_module_may_have_the_name_of_a_package(tmp_path: Path) -> None:
    project = make(tmp_path, {"src/bin/train.py": f"import clip\nimport wandb\n{GUARD}", "src/models/wandb.py": ""})
    assert resolved(project, "wandb", "src/bin/train.py") is None


def test_further_sources_are_given_by_settings(tmp_path: Path) -> None:
    make(tmp_path, {"python/net.py": "", "a/b/t.py": "", "packages/x/src/y.py": "", "packages/z/src/w.py": ""})
    (tmp_path / "torchlint.toml").write_text('src = ["python", "packages/*/src"]\n')
    src = Resolver().for_folder(str(tmp_path / "a")).src
    assert src == tuple(str(tmp_path / name) for name in ("python", "packages/x/src", "packages/z/src"))
    project = Project.around(tmp_path / "a/b/t.py", sources=src)
    assert resolved(project, "net", "a/b/t.py") == "python/net.py"
    assert resolved(project, "w", "a/b/t.py") == "packages/z/src/w.py"
