"""Classes taken from a dictionary that another file fills item by item, and that is imported under another name."""

from __future__ import annotations

from pathlib import Path

import pytest
from whole_program import rows_of

SELECTORS = """\
import torch

REGISTRY = {}


class Greedy:
    def select(self, values):
        return values.max(dim=1)[1]


REGISTRY["greedy"] = Greedy


class Noisy:
    def select(self, values):
        return {noisy}


REGISTRY["noisy"] = Noisy
"""
CONTROLLER = """\
import torch
from net import Net
from selectors_ import REGISTRY as SELECTORS


class Controller:
    def __init__(self, args):
        self.agent = Net().cuda()
        self.selector = SELECTORS[args.selector]()

    def select_actions(self, state):
        values = self.forward(state)
        return self.selector.select(values)

    def forward(self, state):
        return self.agent(state)
"""
LEARNER = """\
import torch


class Learner:
    def __init__(self, controller):
        self.controller = controller
        self.optimizer = torch.optim.Adam(controller.agent.parameters())

    def train(self, states, rewards):
        actions = self.controller.select_actions(states)
        chosen = self.controller.forward(states).gather(1, actions.unsqueeze(1))
        loss = (rewards - chosen).square().mean()
        self.optimizer.zero_grad()
        loss.backward()
        self.optimizer.step()
"""
REGISTRIES = {
    "controllers": 'from controller import Controller\n\nREGISTRY = {}\nREGISTRY["plain"] = Controller\n',
    "learners": 'from learner import Learner\n\nREGISTRY = {}\nREGISTRY["q"] = Learner\n',
    "net": """\
from torch import nn


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.layer = nn.Linear(8, 4)

    def forward(self, state):
        return self.layer(state)
""",
    "run": """\
import argparse

import torch
from controllers import REGISTRY as c_REGISTRY
from learners import REGISTRY as l_REGISTRY

parser = argparse.ArgumentParser()
parser.add_argument("--controller")
parser.add_argument("--learner")
parser.add_argument("--selector")
args = parser.parse_args()
learner = l_REGISTRY[args.learner](c_REGISTRY[args.controller](args))
for states, rewards in torch.load("games.pt"):
    learner.train(states.cuda(), rewards.cuda())
""",
}


@pytest.mark.parametrize(
    ("noisy", "expected"),
    [
        ("torch.distributions.Categorical(logits=values).sample()", [12]),
        ("(values + torch.randn_like(values)).max(dim=1)[1]", [12]),
        ("values + torch.randn_like(values)", []),  # these actions may be trained
    ],
)
def test_a_registry_is_imported_under_another_name(tmp_path: Path, noisy: str, expected: list[int]) -> None:
    files = {
        "selectors_": SELECTORS.replace("{noisy}", noisy),
        "controller": CONTROLLER,
        "learner": LEARNER,
        **REGISTRIES,
    }
    assert rows_of(tmp_path, files, "controller", "TL402") == expected
