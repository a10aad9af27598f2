"""Serve a ranking model: every request asks for the scores of a few texts.

Expected on an NVIDIA H200:

- 2,000 requests of 1-8 texts, 8 blocks 512 wide: 1.4x to 2.4x; 1.6 s a run, 30 s to start. A request launches about
  75 kernels one by one, with an autograd graph: 0.8 ms, of which the GPU works 0.2 ms. As one CUDA graph without
  autograd it takes about 0.45 ms: tokenizing, guards and copies 0.2 ms, then 0.2 ms on the GPU. The start compiles
  three graphs (first batch size, any batch size, batch size 1), on the slower side with their backward passes.
"""

from __future__ import annotations

import random
import time

import torch
from torch import Tensor, nn


UNIT = "requests"
SIZES = {
    "cuda": {"2,000 requests of 1-8 texts, 8 blocks 512 wide": 0.5},
    "cpu": {"2 blocks 128 wide, 1-8 texts a request": 0.02},
}
# Dropout is noise to every score, less so to the means over many requests that are compared; float16 rounds them.
TOLERANCE = 2e-2

VOCAB = 20000
LENGTH = 32


class Block(nn.Module):
    """A perceptron beside a shortcut."""

    def __init__(self, width: int) -> None:
        super().__init__()
        self.norm = nn.LayerNorm(width)
        self.up = nn.Linear(width, 4 * width)
        self.act = nn.GELU()
        self.down = nn.Linear(4 * width, width)
        self.dropout = nn.Dropout(0.1)

    def forward(self, x: Tensor) -> Tensor:
        return x + self.dropout(self.down(self.act(self.up(self.norm(x)))))


class Ranker(nn.Module):
    """The mean of token embeddings, refined by blocks and scored."""

    def __init__(self, width: int, depth: int) -> None:
        super().__init__()
        self.embedding = nn.Embedding(VOCAB, width, padding_idx=0)
        self.encoder = nn.Sequential(*[Block(width) for _ in range(depth)])
        self.head = nn.Linear(width, 1)

    def forward(self, tokens: Tensor) -> Tensor:
        mask = (tokens != 0).unsqueeze(-1)
        pooled = (self.embedding(tokens) * mask).sum(dim=1) / mask.sum(dim=1).clamp(min=1)
        return torch.sigmoid(self.head(self.encoder(pooled))).squeeze(-1)


class RankingService:
    """Answers requests, one after the other."""

    def __init__(self, device: str, width: int, depth: int) -> None:
        self.device = device
        model = Ranker(width, depth).to(device)
        self.model = torch.compile(model, mode="reduce-overhead")
        self.model.eval()
        self.latencies: list[float] = []

    def tokenize(self, text: str) -> list[int]:
        ids = [int(word) for word in text.split()][:LENGTH]
        return ids + [0] * (LENGTH - len(ids))

    @torch.no_grad()
    def predict(self, texts: list[str]) -> list[float]:
        tokens = torch.tensor([self.tokenize(text) for text in texts]).to(self.device)
        start = time.time()
        with torch.autocast("cuda", dtype=torch.float16):
            scores = self.model(tokens)
        self.latencies.append(time.time() - start)
        return scores.detach().cpu().tolist()


def make_requests(count: int) -> list[list[str]]:
    """Requests of one to eight texts of up to 40 words."""
    rng = random.Random(0)
    requests = []
    for _ in range(count):
        texts = []
        for _ in range(rng.randint(1, 8)):
            texts.append(" ".join(str(rng.randint(1, VOCAB - 1)) for _ in range(rng.randint(5, 40))))
        requests.append(texts)
    return requests


def prepare(device: str, size: float = 1.0) -> tuple[RankingService, list[list[str]]]:
    """The service and the requests; `size` scales their number, and below a half the model is a small one."""
    torch.manual_seed(0)
    service = RankingService(device, width=512, depth=8) if size >= 0.5 else RankingService(device, width=128, depth=2)
    return service, make_requests(max(200, int(4000 * size)))


def work(state: tuple[RankingService, list[list[str]]]) -> list[float]:
    """Answer every request; the mean score of each hundred of them."""
    service, requests = state
    torch.manual_seed(0)
    means = []
    for start in range(0, len(requests), 100):
        scores = [score for texts in requests[start : start + 100] for score in service.predict(texts)]
        means.append(sum(scores) / len(scores))
    return means


def items(state: tuple[RankingService, list[list[str]]]) -> int:
    """How many requests one `work` answers."""
    return len(state[1])


def main() -> None:
    device = "cuda" if torch.cuda.is_available() else "cpu"
    service, requests = prepare(device, 1.0 if device == "cuda" else 0.02)
    means = work((service, requests))
    latency = sum(service.latencies) / len(service.latencies)
    print(f"{len(requests)} requests, mean score {sum(means) / len(means):.4f}, mean latency {1000 * latency:.2f} ms")


if __name__ == "__main__":
    main()
