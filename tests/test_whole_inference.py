"""Inference in one file, with a network, its callers or its modes in another one."""

from __future__ import annotations

from pathlib import Path

import pytest
from whole_program import rows_of

DETECTOR = """\
import torch
from torch import nn


class Detector(nn.Module):
    def __init__(self, trainable=False):
        super().__init__()
        self.trainable = trainable
        self.backbone = nn.Conv2d(3, 16, 3)

    {decorator}
    def detect_objects(self, images):
        return self.backbone(images).amax(1)

    def forward(self, images):
        if not self.trainable:
            return self.detect_objects(images)
        return self.backbone(images)
"""
DEMO = """\
import torch
from detector import Detector


def show(net, frames):
    for frame in frames:
        boxes = net(frame.unsqueeze(0))
        print(boxes)


if __name__ == "__main__":
    model = Detector()
    model.load_state_dict(torch.load("detector.pt"))
    model.eval()
    show(model, torch.load("frames.pt"))
"""


@pytest.mark.parametrize(("decorator", "expected"), [("@torch.no_grad()", []), ("@torch.jit.ignore", [7])])
def test_the_forward_pass_returns_what_a_method_gives(tmp_path: Path, decorator: str, expected: list[int]) -> None:
    detector = DETECTOR.replace("{decorator}", decorator)
    assert rows_of(tmp_path, {"detector": detector, "demo": DEMO}, "demo", "TL402") == expected


EVALUATION = """\
def test(model, users, items):
    count = 0
    for user in users:
        rates = {run}
        count += rates.shape[1]
    assert count == len(users) * len(items)
    return count
"""
TRAINING = """\
import torch
from evaluation import test
from net import Net

model = Net().cuda()
optimizer = torch.optim.Adam(model.parameters())
for epoch in range(100):
    loss = model(range(10), range(99)).mean()
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    print({test})
"""


@pytest.mark.parametrize(
    ("run", "test", "expected"),
    [
        ("model(user, items).detach().cpu()", "test(model, range(10), range(99))", [4]),
        ("model(user, items).detach().cpu()", "torch.no_grad()(test)(model, range(10), range(99))", []),
        ("model(user, items).cpu()", "test(model, range(10), range(99))", []),
    ],
)
def test_a_file_without_torch_evaluates_the_network_of_another_file(
    tmp_path: Path, run: str, test: str, expected: list[int]
) -> None:
    files = {"evaluation": EVALUATION.replace("{run}", run), "main": TRAINING.replace("{test}", test)}
    assert rows_of(tmp_path, files, "evaluation", "TL402") == expected


NETWORK = """\
from torch import nn


def build():
    return nn.Sequential(nn.Conv2d(3, 64, 3), nn.ReLU(), nn.Conv2d(64, 8, 3))
"""
MIXED = """\
import torch
from network import build


def train_epoch(model, loader, optimizer):
    for images, goals in loader:
        with torch.autocast("cuda", dtype=torch.float16):
            loss = (model(images.cuda()) - goals.cuda()).abs().mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()


@torch.no_grad()
def validate(model, loader):
    for images, goals in loader:
        print((model(images.cuda()) - goals.cuda()).abs().mean())


def main(loader, held_out):
    model = build().cuda()
    {prepared}
    train_epoch(model, loader, torch.optim.AdamW(model.parameters()))
    validate(model, held_out)


if __name__ == "__main__":
    main(torch.load("photos.pt"), torch.load("others.pt"))
"""
LIVE = """\
import torch
from network import build

if __name__ == "__main__":
    model = build().cuda().half()
    with torch.no_grad():
        for image in torch.load("camera.pt"):
            print(model(image.cuda().half()).mean())
"""


@pytest.mark.parametrize(("prepared", "expected"), [("model.train()", [17]), ("model.half()", [])])
def test_only_the_programs_of_an_evaluation_choose_its_precision(
    tmp_path: Path, prepared: str, expected: list[int]
) -> None:
    files = {"network": NETWORK, "mixed": MIXED.replace("{prepared}", prepared), "live": LIVE}
    assert rows_of(tmp_path, files, "mixed", "TL312") == expected


SCRIPT = """\
import torch
from loading import load_checkpoint
from torch.utils.data import DataLoader


def main():
    model = load_checkpoint("model.pt").model
    for batch in DataLoader(make_data(), batch_size=1):
        tokens, label = batch
        scores = model(tokens)
        print((scores > 0).tolist(), label.item())


if __name__ == "__main__":
    main()
"""


@pytest.mark.parametrize(
    ("name", "more", "expected"),
    [
        ("ner_inference", "", [10]),
        ("ner", "", []),
        ("search", "", []),
        ("ner_inference", "\n\ndef tune(loss, optimizer):\n    loss.backward()\n    optimizer.step()\n", []),
    ],
)
def test_a_loop_of_a_script_that_only_infers_by_its_name(
    tmp_path: Path, name: str, more: str, expected: list[int]
) -> None:
    files = {
        name: SCRIPT + more,
        "loading": "import torch\n\n\ndef load_checkpoint(path):\n    return torch.load(path)\n",
    }
    assert rows_of(tmp_path, files, name, "TL402") == expected


RECOGNIZER = """\
import torch


class Recognizer:
    def __init__(self, model):
        self.model = model

    def recognize(self, inputs):
        scores = self.model.inference(inputs)
        return scores.topk(1)[1].tolist()
"""
RECOGNIZING = """\
import torch
from recognizer import Recognizer
from speech import Speech


def main():
    model = Speech()
    model.load_state_dict(torch.load("model.pt"))
    {switched}
    recognizer = Recognizer(model.cuda())
    for inputs in torch.load("inputs.pt"):
        {run}


if __name__ == "__main__":
    main()
"""
SPEECH = """\
import torch
from torch import nn


class Speech(nn.Module):
    def __init__(self):
        super().__init__()
        self.layer = nn.LSTM(8, 8, num_layers=2, dropout=0.1)

    {decorator}
    def inference(self, inputs):
        return self.layer(inputs)[0]
"""
UNDER_NO_GRAD = "with torch.no_grad():\n            recognizer.recognize(inputs)"


@pytest.mark.parametrize(
    ("switched", "run", "decorator", "expected"),
    [
        ("model.eval()", "print(recognizer.recognize(inputs))", "", [9]),
        ("model.train()", "print(recognizer.recognize(inputs))", "", [9]),
        ("model.eval()", UNDER_NO_GRAD, "", []),
        ("model.eval()", "print(recognizer.recognize(inputs))", "@torch.no_grad()", []),
        ("model.eval().requires_grad_(False)", "print(recognizer.recognize(inputs))", "", []),
    ],
)
def test_an_object_runs_a_network_that_another_file_evaluates(
    tmp_path: Path, switched: str, run: str, decorator: str, expected: list[int]
) -> None:
    recognizing = RECOGNIZING.replace("{switched}", switched).replace("{run}", run)
    speech = SPEECH.replace("{decorator}", decorator)
    files = {"recognizer": RECOGNIZER, "recognizing": recognizing, "speech": speech}
    assert rows_of(tmp_path, files, "recognizer", "TL402") == expected


COMPARED = """\
import torch
from torch import nn


class Attention(nn.Module):
    def forward(self, query, key):
        if torch.equal(query, key):
            return query
        return query * key
"""
TRAINED = """\
import torch
from layers import Attention

network = Attention().cuda()
optimizer = torch.optim.SGD(network.parameters(), lr=0.1)
for x, y in loader:
    loss = network(x.cuda(), y.cuda()).mean()
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
"""
SHOWN = """\
import torch
from layers import Attention

torch.set_grad_enabled(False)
network = Attention().cuda()
print(network(torch.load("x.pt"), torch.load("y.pt")))
"""


@pytest.mark.parametrize(
    ("train", "switch", "expected"),
    [
        (TRAINED, "torch.set_grad_enabled(False)", [7]),
        (TRAINED, "torch.set_grad_enabled(True)", [7]),
        ("from layers import Attention\n", "torch.set_grad_enabled(False)", []),
    ],
)
def test_a_script_that_turns_gradients_off_leaves_them_on_in_another_one(
    tmp_path: Path, train: str, switch: str, expected: list[int]
) -> None:
    demo = f"{SHOWN.replace('torch.set_grad_enabled(False)', switch)}\n\ndef update(loss):\n    loss.backward()\n"
    files = {"layers": COMPARED, "train": train, "demo": demo}
    assert rows_of(tmp_path, files, "layers", "TL203") == expected


SHAPES = """\
import torch


class Shapes:
    def __init__(self, points):
        self.network = Network().cuda()
        self.points = points

    def test(self):
        self.network.eval()
        for points in self.points:
            self.generate_shape(points)

    def generate_shape(self, points):
        shape = self.network(points)
        save(shape)


class Network(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.layer = torch.nn.Conv2d(3, 512, 3)

    def forward(self, points):
        return self.layer(points)
"""


@pytest.mark.parametrize(
    ("program", "expected"),
    [
        ("import shapes as made\n\nmade = made.Shapes(read())\nwith torch.no_grad():\n    made.test()\n", []),
        ("import shapes as made\n\nmade = made.Shapes(read())\nmade.test()\n", [15]),
        (
            "def main():\n    import shapes as made\n\n    made = made.Shapes(read())\n"
            "    with torch.no_grad():\n        made.test()\n\n\nmain()\n",
            [],
        ),
    ],
    ids=["without gradients", "with gradients", "in a function"],
)
def test_an_object_may_have_the_name_of_its_module(tmp_path: Path, program: str, expected: list[int]) -> None:
    files = {"shapes": SHAPES, "program": f"import torch\nfrom reading import read\n{program}"}
    assert rows_of(tmp_path, files, "shapes", "TL402") == expected


TRACKER = """\
import torch


class Tracker:
    def __init__(self, model):
        self.model = model
        self.model.eval()

    def track(self, image):
        outputs = self.model.track(torch.from_numpy(image))
        return outputs.argmax().item()
"""
REGISTRY = """\
from tracker import Tracker

TRACKERS = {"plain": Tracker}


def build_tracker(kind, model):
    return TRACKERS[kind](model)
"""
MODEL = """\
from torch import nn


class Siamese(nn.Module):
    def __init__(self):
        super().__init__()
        self.backbone = nn.Conv2d(3, 8, 3)

    def track(self, crop):
        return self.backbone(crop)
"""
TRACKING = """\
import torch
from model import Siamese
from registry import build_tracker

{guard}
def main(images):
    tracker = build_tracker("plain", Siamese().cuda())
    for image in images:
        print(tracker.track(image))


main(torch.load("images.pt"))
"""


@pytest.mark.parametrize(("guard", "expected"), [("", [10]), ("@torch.no_grad()", [])])
def test_the_callers_of_a_class_in_a_dictionary_are_followed(tmp_path: Path, guard: str, expected: list[int]) -> None:
    files = {
        "tracker": TRACKER,
        "registry": REGISTRY,
        "model": MODEL,
        "test": TRACKING.format(guard=guard),
    }
    assert rows_of(tmp_path, files, "tracker", "TL402") == expected


SPEAKER = """\
import torch
from torch import nn


class Speaker(nn.Module):
    def __init__(self):
        super().__init__()
        self.prenet = nn.Sequential(nn.Linear(8, 8), nn.Dropout(0.1))

    def inference(self, codes):
        found = []
        for _ in range(8):
            codes = self.prenet(codes)
            found.append(codes.argmax(1).item())
        return found


class Singer(Speaker):
    pass


class Choir(nn.Module):
    def __init__(self):
        super().__init__()
        self.speaker = Speaker()
"""
SPEAKING = """\
import torch
from speaker import Choir, Singer, Speaker


def load(path):
    network = {made}
    network.load_state_dict(torch.load(path))
    network.cuda()
    {switch}
    return network


def speak(path, loader):
    network = load(path)
    with torch.no_grad():
        for batch in loader:
            print(network{part}.inference(batch.cuda()))
"""


@pytest.mark.parametrize(
    ("made", "part", "switch", "expected"),
    [
        ("Speaker()", "", "print(path)", [13]),
        ("Speaker()", "", "network.eval()", []),
        ("Singer()", "", "network.eval()", []),
        ("Choir()", ".speaker", "network.eval()", []),
        ("Speaker()", "", "other = torch.nn.Linear(8, 8); other.eval()", [13]),
    ],
)
def test_who_uses_a_network_switches_the_mode_of_its_parts(
    tmp_path: Path, made: str, part: str, switch: str, expected: list[int]
) -> None:
    speaking = SPEAKING.replace("{made}", made).replace("{part}", part).replace("{switch}", switch)
    main = "from data import loader\nfrom speaking import speak\n\nspeak('weights.pt', loader)\n"
    files = {"speaker": SPEAKER, "speaking": speaking, "main": main}
    assert rows_of(tmp_path, files, "speaker", "TL401") == expected


AGENT = """\
from torch import nn


class Agent:
    def __init__(self, size):
        self.actor = nn.Sequential(nn.Linear(size, 256), nn.ELU(), nn.Linear(256, 8)).cuda()
        self.storage = []

    def act(self, observations):
        actions = self.actor(observations).detach()
        self.storage.append(actions)
        return actions
"""
RUNNER = """\
import torch


class Runner:
    def __init__(self, kind, env):
        self.agent, self.env = kind(env.size), env

    def learn(self, steps):
        observations = self.env.reset()
        with torch.inference_mode():
            for _ in range(steps):
                observations = self.env.step(self.agent.act(observations))
"""
ALGORITHM = """\
class Algorithm:
    def collect(self, observations):
        return self.agent.act(observations)
"""
COLLECTING = "import torch\n\n\n@torch.no_grad()\ndef collect_all(algorithm, x):\n    return algorithm.collect(x)\n"


@pytest.mark.parametrize(
    ("others", "expected"),
    [
        ({}, [10]),
        ({"runner": RUNNER}, []),
        ({"runner": RUNNER.replace("torch.inference_mode()", "self.env.lock")}, [10]),
        ({"runner": RUNNER.replace(".act(", ".play(")}, [10]),
        ({"runner": RUNNER.replace("self.agent.act(", "getattr(self.agent, 'act')(")}, []),
        ({"runner": RUNNER.replace("self.agent.act(", "setattr(self.agent, 'act')(")}, [10]),
        ({"tests/test_runner": RUNNER}, [10]),
        ({"algorithm": ALGORITHM}, [10]),
        ({"algorithm": ALGORITHM, "collecting": COLLECTING}, []),
        ({"algorithm": ALGORITHM, "collecting": COLLECTING.replace("algorithm.collect(x)", "x")}, [10]),
    ],
)
def test_a_library_may_call_a_method_without_gradients(
    tmp_path: Path, others: dict[str, str], expected: list[int]
) -> None:
    assert rows_of(tmp_path, {"agent": AGENT, **others}, "agent", "TL402") == expected


@pytest.mark.parametrize(("others", "expected"), [({}, [10]), ({"runner": RUNNER}, [])])
def test_a_script_below_a_class_does_not_show_how_it_is_called(
    tmp_path: Path, others: dict[str, str], expected: list[int]
) -> None:
    below = "\n\nif __name__ == '__main__':\n    print(Agent(8).act(torch.rand(2, 8)))\n"
    agent = AGENT.replace("from torch import nn", "import torch; from torch import nn", 1) + below
    assert rows_of(tmp_path, {"agent": agent, **others}, "agent", "TL402") == expected


TRAINER = """\
import torch
from torch import nn


class Trainer:
    def __init__(self, batches):
        self.net = nn.Sequential(nn.Linear(64, 256), nn.ELU(), nn.Linear(256, 64)).cuda()
        self.optimizer = torch.optim.Adam(self.net.parameters())
        self.batches = batches

    def train_step(self):
        loss = (self.net(next(self.batches).cuda()) ** 2).mean()
        self.optimizer.zero_grad()
        loss.backward()
        self.optimizer.step()
        pictures = self.net(next(self.batches).cuda())
        return pictures.detach().cpu()
"""
OTHER = "import torch\n\n\n@torch.no_grad()\ndef run(trainer):\n    return trainer.train_step()\n"


def test_a_method_that_trains_is_not_called_without_gradients(tmp_path: Path) -> None:
    assert rows_of(tmp_path, {"trainer": TRAINER, "other": OTHER}, "trainer", "TL402") == [16]


@pytest.mark.parametrize(
    ("others", "expected"),
    [
        ({}, [13]),
        ({"runner": RUNNER}, []),
        ({"runner": RUNNER.replace(".act(", ".play(")}, [13]),
        ({"runner": RUNNER.replace("torch.inference_mode()", "self.env.lock")}, [13]),
    ],
)
def test_a_library_may_call_what_calls_a_method_without_gradients(
    tmp_path: Path, others: dict[str, str], expected: list[int]
) -> None:
    helped = AGENT.replace(
        "        actions = self.actor(observations).detach()\n",
        "        return self.choose(observations)\n\n    def choose(self, observations):\n"
        "        actions = self.actor(observations).detach()\n",
    )
    assert rows_of(tmp_path, {"agent": helped, **others}, "agent", "TL402") == expected


READER = """\
from torch import nn


class Reader(nn.Module):
    def __init__(self, size):
        super().__init__()
        self.encoder = nn.Sequential(nn.Linear(size, 256), nn.ELU(), nn.Linear(256, 8))

    def act(self, images):
        return self._rank(images)

    def _rank(self, images):
        scores = self.encoder(images)
        return scores.argmax(1).tolist()
"""


@pytest.mark.parametrize(
    ("others", "expected"),
    [({}, [13]), ({"runner": RUNNER}, []), ({"runner": RUNNER.replace(".act(", ".play(")}, [13])],
)
def test_a_library_may_call_a_method_of_a_network_without_gradients(
    tmp_path: Path, others: dict[str, str], expected: list[int]
) -> None:
    assert rows_of(tmp_path, {"reader": READER, **others}, "reader", "TL402") == expected
