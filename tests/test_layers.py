"""The model's answers about what a network is made of."""

from __future__ import annotations

import libcst as cst
import pytest

from torchlint.model.module import Module
from torchlint.model.numerics.layers import Layers, NetworkLayers

HEAD = """
import timm
import torch
import torchvision
from elsewhere import Backbone
from torch import nn


def conv(width):
    return nn.Conv2d(width, width, 3)


class Block(nn.Module):
    def __init__(self, width):
        super().__init__()
        self.attention = nn.MultiheadAttention(width, 8)
        self.up = nn.Linear(width, width)


class Deep(nn.Module):
    def __init__(self, kind, depth):
        super().__init__()
        self.blocks = nn.ModuleList([kind(64) for _ in range(depth)])


class Mixed(nn.Module):
    def __init__(self, width):
        super().__init__()
        self.first = conv(width)
        self.backbone = Backbone()


"""


def layers_of(expression: str) -> Layers | None:
    """What the network ``expression`` is made of, run in a loop of a file that ends in it."""
    module = Module.parse(f"{HEAD}net = {expression}\nnet(x)\n")
    call = module.tree.calls[-1]
    assert isinstance(call, cst.Call)
    return module.fact(NetworkLayers).of(call.func)


@pytest.mark.parametrize(
    ("expression", "layer"),
    [
        ("nn.Sequential(nn.Linear(4, 4), nn.ReLU()).cuda().eval()", "Linear"),
        ("Block(64)", "MultiheadAttention"),
        ("Deep(Block, 3)", "MultiheadAttention"),
        ("torch.compile(Mixed(64))", "Conv2d"),
    ],
)
def test_layers_are_followed_through_classes_and_functions(expression: str, layer: str) -> None:
    found = layers_of(expression)
    assert found is not None
    assert found.any(layer)


@pytest.mark.parametrize("expression", ["Backbone()", "load(path)"])
def test_a_network_from_elsewhere_is_unknown_or_empty(expression: str) -> None:
    found = layers_of(expression)
    assert found is None or not found.calls


CONVOLUTIONAL = {
    "Mixed(64)": (True, False),
    "Block(64)": (False, False),
    "torchvision.models.resnet50()": (True, False),
    "torchvision.models.vit_b_16()": (False, False),
    "torchvision.models.mobilenet_v3_large()": (True, True),
    "timm.create_model('resnet50d')": (True, False),
    "timm.create_model(name)": (False, False),
    "nn.Conv2d(8, 8, 3, groups=8)": (True, True),
    "nn.Conv2d(8, 8, 3, 1, 1, 1, 8)": (True, True),
    "nn.Conv2d(8, 8, 3, groups=1)": (True, False),
    "nn.Conv2d(**options)": (True, True),
}


@pytest.mark.parametrize("expression", CONVOLUTIONAL)
def test_convolutions_are_told_from_transformers_and_from_grouped_ones(expression: str) -> None:
    found = layers_of(expression)
    assert found is not None
    assert (found.convolves, found.is_depthwise) == CONVOLUTIONAL[expression]


PRODUCTS = {
    "Block(64)": "torch.nn.MultiheadAttention",
    "nn.Sequential(nn.Linear(4, 4), nn.Linear(4, 4))": "torch.nn.Linear",
    "nn.Sequential(nn.Linear(4, 4))": None,
    "nn.Sequential(nn.Conv2d(3, 8, 3), nn.Linear(4, 4), nn.Linear(4, 4))": None,
}


@pytest.mark.parametrize("expression", PRODUCTS)
def test_matrix_products_count_where_they_are_what_a_network_is_made_of(expression: str) -> None:
    found = layers_of(expression)
    assert found is not None
    assert (found.product.name if found.product is not None else None) == PRODUCTS[expression]
