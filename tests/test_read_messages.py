"""What the messages of TL201 say about how often the training loop waits."""

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
