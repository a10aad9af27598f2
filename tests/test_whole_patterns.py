"""Patterns whose parts are in several files: the place that is reported, and the file that has the reason."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

import pytest
from whole_program import write

from torchlint import check_text, load_settings


def found(folder: Path, files: Mapping[str, str], code: str) -> dict[str, list[str]]:
    """By module of a program the lines with a finding of the rule."""
    write(folder, files)
    settings = load_settings(None, {"select": [code]})
    lines: dict[str, list[str]] = {}
    for name, text in files.items():
        for item in check_text(text, str(folder / f"{name}.py"), settings):
            lines.setdefault(name, []).append(text.splitlines()[item.rows[0] - 1].strip())
    return lines


OPTIONS = """\
import argparse


def parse():
    parser = argparse.ArgumentParser()
    parser.add_argument("--workers", type=int, default={default})
    return parser.parse_args()
"""
LOADING = """\
import torch
from torch.utils.data import DataLoader
from options import parse
from photos import Photos


def main():
    args = parse()
    loader = DataLoader(Photos("train"), batch_size=64, num_workers=args.workers)
    net = torch.nn.Linear(8, 2).cuda()
    for images in loader:
        net(images.cuda()).mean().backward()


if __name__ == "__main__":
    main()
"""


def test_a_default_of_no_workers_is_reported_where_the_option_is_declared(tmp_path: Path) -> None:
    files = {"options": OPTIONS.format(default=0), "main": LOADING}
    assert found(tmp_path, files, "TL113") == {"options": ['parser.add_argument("--workers", type=int, default=0)']}


def test_a_default_of_some_workers_is_not_reported(tmp_path: Path) -> None:
    assert found(tmp_path, {"options": OPTIONS.format(default=8), "main": LOADING}, "TL113") == {}


CLEARING = """\
def prepare(net):
    {clears}
"""
TRAINING = """\
import torch
from steps import prepare


def train(net, loader):
    optimizer = torch.optim.SGD(net.parameters(), lr=0.1)
    for x, y in loader:
        prepare(net)
        loss = (net(x) - y).abs().mean()
        loss.backward()
        optimizer.step()


if __name__ == "__main__":
    train(torch.nn.Linear(8, 2), [])
"""


@pytest.mark.parametrize(
    ("clears", "lines"), [("net.zero_grad()", {}), ("net.train()", {"main": ["optimizer.step()"]})]
)
def test_a_function_of_another_file_may_clear_the_gradients(
    tmp_path: Path, clears: str, lines: Mapping[str, list[str]]
) -> None:
    assert found(tmp_path, {"steps": CLEARING.format(clears=clears), "main": TRAINING}, "TL412") == lines


BOXES = """\
import torch


def overlap(boxes):
    assert (boxes[:, 2:] >= boxes[:, :2]).all()
    return torch.prod(boxes, 1)
"""
CRITERION = """\
import torch
import boxes


class Criterion(torch.nn.Module):
    def loss_labels(self, outputs):
        return outputs["labels"].mean()

    def loss_boxes(self, outputs):
        return boxes.overlap(outputs["boxes"]).mean()

    def get_loss(self, name, outputs):
        losses = {{"labels": self.loss_labels, "boxes": {boxes}}}
        return losses[name](outputs)

    def forward(self, outputs):
        return sum(self.get_loss(name, outputs) for name in ("labels", "boxes"))
"""
DETECTING = """\
import torch
from criterion import Criterion


def train(model, loader, optimizer):
    model.cuda()
    criterion = Criterion()
    for images in loader:
        loss = criterion(model(images.cuda()))
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()


if __name__ == "__main__":
    train(torch.nn.Linear(8, 2), [], None)
"""


@pytest.mark.parametrize(
    ("boxes", "lines"),
    [
        ("self.loss_boxes", {"boxes": ["assert (boxes[:, 2:] >= boxes[:, :2]).all()"]}),
        ("self.loss_labels", {}),
    ],
)
def test_a_criterion_may_take_its_methods_from_a_dictionary(
    tmp_path: Path, boxes: str, lines: Mapping[str, list[str]]
) -> None:
    files = {"boxes": BOXES, "criterion": CRITERION.format(boxes=boxes), "main": DETECTING}
    assert found(tmp_path, files, "TL203") == lines


MIXIN = """\
import torch


class Multimodal:
    def prepare_inputs(self, input_ids, attention_mask, labels, images):
        if images is None or input_ids.shape[1] == 1:
            return None, labels
        features = self.get_model().tower(images)
        input_ids = [ids[mask] for ids, mask in zip(input_ids, attention_mask)]
        labels = [row[mask] for row, mask in zip(labels, attention_mask)]
        embeds = []
        for index, ids in enumerate(input_ids):
            count = {count}
            if count == 0:
                embeds.append(self.get_model().embed_tokens(ids))
                continue
            embeds.append(torch.cat([self.get_model().embed_tokens(ids), features[index]]))
        return torch.stack(embeds), torch.stack(labels)
"""
MULTIMODAL = """\
from mixin import Multimodal
from transformers import LlamaForCausalLM


class MultimodalLlama(LlamaForCausalLM, Multimodal):
    def get_model(self):
        return self.model

    def forward(self, input_ids=None, attention_mask=None, labels=None, images=None):
        embeds, labels = self.prepare_inputs(input_ids, attention_mask, labels, images)
        return super().forward(attention_mask=attention_mask, inputs_embeds=embeds, labels=labels)
"""
TUNING = """\
from model import MultimodalLlama
from transformers import Trainer


def train(name, arguments, dataset):
    model = MultimodalLlama.from_pretrained(name)
    trainer = Trainer(model=model, args=arguments, train_dataset=dataset)
    trainer.train()


train("llama", None, None)
"""
ASKING = """\
import sys
from model import MultimodalLlama

model = MultimodalLlama.from_pretrained("llama").cuda()
print(model.generate(sys.argv[1]))
"""


@pytest.mark.parametrize(
    ("count", "main", "lines"),
    [
        ("(ids == 9).sum()", TUNING, {"mixin": ["if count == 0:"]}),
        ("(ids == 9).sum().item()", TUNING, {}),
        ("(ids == 9).sum()", ASKING, {}),
    ],
)
def test_a_trainer_of_a_library_runs_what_the_forward_of_a_network_takes_from_a_mixin(
    tmp_path: Path, count: str, main: str, lines: Mapping[str, list[str]]
) -> None:
    files = {"mixin": MIXIN.format(count=count), "model": MULTIMODAL, "main": main}
    assert found(tmp_path, files, "TL203") == lines
