"""Classes that configuration files name: what `instantiate` makes is part of the program."""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path

import pytest
from conftest import RunTorchlint

from torchlint import check_text, load_settings
from torchlint.engine.checker import texts_around
from torchlint.project.context import forget, read_again
from torchlint.project.project import Project
from torchlint.source.source import Source

HYDRA = """\
import hydra


@hydra.main("conf")
def main(cfg):
    agent = hydra.utils.instantiate(cfg.agent)
    agent.act(0)


main()
"""
OWN = (
    "import yaml\nfrom loading import instantiate_from_config\n\n"
    "agent = instantiate_from_config(yaml.safe_load(open('conf/agent.yaml')))\nagent.act(0)\n"
)
AGENT = """\
import torch
from tools import to_array


class Agent:
    def __init__(self, actor):
        self.actor = torch.nn.DataParallel(actor).cuda()

    def act(self, observation):
        return to_array(self.actor(observation))
"""
TOOLS = "def to_array(tensor):\n    return tensor.detach().cpu().numpy()\n"


def write(folder: Path, files: Mapping[str, str]) -> None:
    (folder / ".git").mkdir(exist_ok=True)
    for name, text in files.items():
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, encoding="utf-8")


def programs(folder: Path, module: str) -> list[str]:
    project = Project.around(folder, folder)
    return [path.relative_to(folder).as_posix() for path in project.programs(folder / module)]


@pytest.mark.parametrize(
    ("script", "config", "expected"),
    [
        (HYDRA, "agent:\n  _target_: agents.sac.Agent\n  actor: null\n", ["main.py"]),
        (HYDRA, 'agent:\n  class: "agents.sac.Agent"\n  params: {}\n', ["main.py"]),
        (OWN, "target: agents.sac.Agent\nparams:\n  actor: null\n", ["main.py"]),
        (HYDRA, "optimizer:\n  _target_: torch.optim.Adam\n", []),
        (HYDRA, "agent:\n  name: agents.sac.Agent\n", []),
        (HYDRA, "# _target_: agents.sac.Agent\nclass: cat\ntarget: ${agents.sac.Agent}\n", []),
        (HYDRA.replace("hydra.utils.instantiate", "build"), "_target_: agents.sac.Agent\n", []),
    ],
    ids=["hydra", "old hydra", "target", "of torch", "another key", "no name", "nothing makes it"],
)
def test_a_class_that_a_script_instantiates_is_reached(
    script: str, config: str, expected: list[str], tmp_path: Path
) -> None:
    write(tmp_path, {"main.py": script, "conf/agent.yaml": config, "agents/sac.py": AGENT, "tools.py": TOOLS})
    assert programs(tmp_path, "agents/sac.py") == expected


def test_an_object_instantiates_its_parts(tmp_path: Path) -> None:
    agent = "import hydra\n\n\ndef make(cfg):\n    return hydra.utils.instantiate(cfg)\n"
    config = "agent:\n  _target_: agents.sac.make\n  actor:\n    _target_: agents.actor.Actor\n"
    write(tmp_path, {"main.py": HYDRA, "conf/all.yaml": config})
    write(tmp_path, {"agents/sac.py": agent, "agents/actor.py": "class Actor: ..."})
    assert programs(tmp_path, "agents/actor.py") == ["main.py"]


def test_the_configuration_of_another_program_says_nothing(tmp_path: Path) -> None:
    write(tmp_path, {"a/main.py": HYDRA, "b/main.py": "print(1)\n", "b/conf.yaml": "_target_: agents.sac.Agent\n"})
    write(tmp_path, {"agents/sac.py": AGENT, "a/conf.yaml": "seed: 1\n"})
    assert programs(tmp_path, "agents/sac.py") == []


def test_findings_see_what_the_class_imports_and_change_with_the_configuration(tmp_path: Path) -> None:
    write(tmp_path, {"main.py": HYDRA, "agents/sac.py": AGENT, "tools.py": TOOLS, "conf/agent.yaml": "seed: 1\n"})
    settings = load_settings(None, {"select": ["TL402"]})
    path = os.fspath(tmp_path / "agents" / "sac.py")
    assert check_text(AGENT, path, settings) == []
    config = tmp_path / "conf" / "agent.yaml"
    config.write_text("agent:\n  _target_: agents.sac.Agent\n", encoding="utf-8")
    read_again(os.fspath(config))
    found = check_text(AGENT, path, settings)
    assert [one.code for one in found] == ["TL402"]
    forget()
    assert check_text(AGENT, path, settings) == found
    assert os.fspath(config) in texts_around(Source.from_text(AGENT, path), settings)
    assert check_text(AGENT, path, replace(settings, isolated_files=True)) == []


def test_results_are_not_kept_when_another_class_is_named(tmp_path: Path, torchlint_in: RunTorchlint) -> None:
    write(tmp_path, {"main.py": HYDRA, "agents/sac.py": AGENT, "tools.py": TOOLS, "conf/agent.yaml": "class: none\n"})
    for config, expected in (("seed: 1", False), ("class: agents.sac.Agent", True), ("class: other.Agent", False)):
        (tmp_path / "conf" / "agent.yaml").write_text(f"{config}\n", encoding="utf-8")
        done = torchlint_in(tmp_path, "--select", "TL402")
        assert ("TL402" in done.stdout) is expected
        assert done.stdout == torchlint_in(tmp_path, "--select", "TL402", "--no-cache").stdout
