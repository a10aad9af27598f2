"""What the messages of TL201 and TL203 say about how often the training loop waits."""

from __future__ import annotations

import pytest

from torchlint import check_text

ALTERNATING = """\
import torch

model = torch.nn.Linear(3, 3).cuda()
for step, (images, labels) in enumerate(loader):
    loss = torch.nn.functional.cross_entropy(model(images.cuda()), labels.cuda())
    loss.backward()
    optimizer.step()
    {head}
        print(loss.item())
"""


@pytest.mark.parametrize(
    ("head", "often"),
    [
        ("if step % 2 == 0:", "second step"),
        ("if step % 1 == 0:", "step"),
        ("for part in range(2):", "step"),
        ("for part in range(4):\n      if part % 2:", "step"),
    ],
)
def test_a_message_says_that_a_read_is_in_every_second_step_only(head: str, often: str) -> None:
    found = [item.message for item in check_text(ALTERNATING.format(head=head)) if item.code == "TL201"]
    assert found == [f"`.item()` in the training loop waits for the GPU at every {often}"]


@pytest.mark.parametrize(("head", "often"), [("if step % 2 == 0:", "every second"), ("if step % 1 == 0:", "every")])
def test_a_message_says_that_a_test_is_in_every_second_step_only(head: str, often: str) -> None:
    code = ALTERNATING.format(head=head).replace("print(loss.item())", "assert loss < 9")
    found = [item.message for item in check_text(code) if item.code == "TL203"]
    assert found == [f"the test of a GPU tensor waits for the GPU at {often} training step"]
