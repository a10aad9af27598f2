"""What the words in the name of a function say of its purpose."""

from __future__ import annotations

import re
from functools import cache, lru_cache

from torchlint.model.semantics import knowledge

_CAMEL = re.compile(r"(?<=[a-z0-9])(?=[A-Z])")

#: Words by which a function says that it is inference ...
EVALUATING = frozenset(
    "evaluate evaluation eval evaluator validate validation valid val vali test testing predict prediction "
    "predictions predictor infer inference".split()
)
#: ... or that it may be.
USING = frozenset(
    "generate generation sample samples sampling translate translation caption captioning extract extraction embed "
    "embedding embeddings reconstruct reconstruction reconstructions demo visualize synthesize transcribe detect "
    "recognize segment classify encode decode features answer chat plot show images search".split()
)
#: Words of functions that measure a network. Here other words such as ``measure`` may mean the quality of its outputs.
MEASURING = frozenset("fps bench benchmark profile profiling latency throughput speed flops timing warmup time".split())
#: Words of functions that describe a network: its layers, parameters and operations.
DESCRIBING = frozenset("summary summarize flops macs params complexity count hooks".split())
CHECKING = frozenset("test check compare verify".split())
TRAINING = frozenset("train training fit pretrain finetune learn optimize update step loss".split())
#: Words of a part of the training, and with one of ``_HELD_OUT`` of the same part of an evaluation: ``eval_step``.
_PARTS = frozenset({"step", "loss"})
_HELD_OUT = frozenset("evaluate evaluation eval evaluator validate validation val vali test testing".split())
#: Functions that show or save their arguments, for which these need no graph.
SHOWING = frozenset(
    "save_image imsave imwrite imshow make_grid tensor2im add_image add_images add_mesh add_video add_audio "
    "write_video write_jpeg write_png mimsave mimwrite".split()
)
#: ... by their full names.
SAVING = frozenset({"torchaudio.save"})
#: Words of functions in which an agent chooses what to do.
ACTING = frozenset({"act", "action", "actions"})


@lru_cache(maxsize=10_000)
def snake_case(name: str) -> str:
    """``grad_cam`` for ``GradCam``."""
    return _CAMEL.sub("_", name).lower()


def words_of(name: str) -> set[str]:
    """The words of an identifier in snake case or camel case."""
    return set(re.split(r"[_\d]+", snake_case(name)))


def measuring(*others: str) -> re.Pattern[str]:
    """A pattern that finds a part of a name which says that code measures time or memory, or one of ``others``."""
    return re.compile("|".join(("bench", "profil", "measur", "latency", "throughput", *others)), re.IGNORECASE)


def inspects_network(name: str) -> bool:
    """Whether a function of this name measures or describes a network."""
    return not words_of(name).isdisjoint(DESCRIBING | MEASURING)


def says_training(words: set[str]) -> bool:
    """Whether the words of a name say that a function trains: ``train_step``, but not ``eval_step``."""
    return bool(words & (TRAINING - _PARTS if words & _HELD_OUT else TRAINING))


@cache
def may_run_network(method: str) -> bool:
    """Whether a method of a network may be one that runs it, by its name: ``generate``, ``decode_code``."""
    if method in knowledge.RUNNING_METHODS or method in knowledge.LOSS_METHODS or method.startswith("forward_"):
        return True
    return bool(words_of(method) & USING)
