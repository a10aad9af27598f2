"""Words without which a text runs no network on single samples; without heavy imports."""

from __future__ import annotations

import re
from itertools import chain

from torchlint.rule.loop_words import is_repeated, loop_around
from torchlint.source.lexemes import places

LOOP = re.compile(r"^[ \t]*(async )?for\b", re.MULTILINE)
#: Calls that may run a network, which another file gives a batch of size 1.
_RUNS = ("predict(", "infer(", "inference(")
#: A batch of size 1, by a word or by a pattern that begins with a literal.
_INSERTED = (
    "unsqueeze(0",
    "unsqueeze_(0",
    "unsqueeze(dim=0",
    "unsqueeze_(dim=0",
    "torch.unsqueeze(",
    "newaxis",
    "expand_dims(",
    ".view(1,",
    ".reshape(1,",
)
_SINGLE = re.compile(r"\[(?:None\b|(\w{1,40}) ?: ?\(?\1 ?\+ ?1\b|(?:(?<=stack\(\[)|(?<=array\(\[))\w{1,40}\])")
#: Inference, and what gives samples the same size.
_INFERENCE = ("no_grad", "inference_mode", ".eval(")
_SIZES = (
    "esize(",
    "interpolate(",
    "Crop(",
    "crop(",
    "etterbox(",
    "Image.new(",
    "DataLoader",
    "ataset",
    "warpAffine(",
    "warpPerspective(",
    "clip",
    "torch.randn(",
    "np.load(",
)
#: The number of rows of a tensor or array, and a loop before it in the same line.
_ROWS = (".size(0)", ".shape[0]")
_FOR = re.compile(r"\bfor ")
_BEFORE = 124  #: characters from the loop to the number of rows
#: A row, or a slice of one row; `dict[str, int]` is a type.
_ROW = re.compile(
    r"\[(?:(?<=\w\[)(?!(?:None|int|str|bool|float|torch|dict|list|tuple)\b)[a-z]\w{0,39}, ?[\w:]"
    r"|(\w{1,40}) ?: ?\(?\1 ?\+ ?1\b)"
)
#: A slice from one name to another, `image[top:bottom`, or to a sum that begins with the same name.
_SLICE = re.compile(r"\[(?:[^\[\]\n]{0,60}[ ,])?(\w{1,40}) ?: ?(?:\(?\1 ?\+|(\w{1,40}) ?[,\]])")
#: A bound of a slice that is computed from the other bound: `= top + `, `= min(top + `, `= max(bottom - `.
_BOUND = re.compile(r"= ?(?:[\w.]{0,20}(?:min|max|int)\(){0,2}(\w{1,40}) ?[+-]")
#: Functions that read an image, which may be passed to a function of another file.
_READING = ("Image.open(", "imread(")
#: `pipeline` of transformers; a pattern that begins with a literal is quick.
_PIPELINE = re.compile(
    r"transformers(?:\.pipeline\(|(?<=import transformers) +as\b"
    r"|(?<=from transformers)(?:\.\w+)* import *(?:\([^)]{0,1000}\bpipeline\b|[^\n(]*\bpipeline\b|\*))"
)

#: Calls that show that samples arrive one by one, or that single samples are measured or shown.
ONE_BY_ONE = re.compile(
    r"^(read|imshow|waitKey|input|recv|step|reset|time|perf_counter|perf_counter_ns|process_time|tic|toc|record"
    r"|synchronize|backward|timeit|accept|poll)$"
)
#: ... those of them that measure times.
TIMING = re.compile(r"^(time|perf_counter|perf_counter_ns|process_time|tic|toc|record|synchronize)$")


def runs_on_images(text: str) -> bool:
    """Whether a text may run a network on one image, and give all images the same size."""
    return (
        any(word in text for word in _INFERENCE)
        and _makes_single(text)
        and (
            any(word in text for word in _SIZES)
            or ("torch.stack(" in text and ".eval(" in text)
            or _takes_rows(text)
            or _takes_windows(text)
        )
    )


def runs_on_windows(text: str) -> bool:
    """Whether a text may run a network on windows of an image, for inference if its caller says so."""
    return _makes_single(text) and _takes_windows(text)


def _makes_single(text: str) -> bool:
    """Whether a text makes a batch of size 1."""
    return any(word in text for word in _INSERTED) or _SINGLE.search(text) is not None


def _takes_windows(text: str) -> bool:
    """Whether a text takes parts of one size of an image, by the bounds of slices."""
    slices = list(_SLICE.finditer(text))
    if any(found[2] is None for found in slices):
        return True
    bounds = {found[1] for found in _BOUND.finditer(text)} if slices else set()
    return any(found[1] in bounds or found[2] in bounds for found in slices)


def _takes_rows(text: str) -> bool:
    """Whether a loop takes the rows of a tensor or array one by one."""
    if any(_is_looped(text, at) for at in places(text, *_ROWS)):
        return True
    return any(loop_around(text, found.start()) is not None for found in _ROW.finditer(text))


def _is_looped(text: str, at: int) -> bool:
    """Whether a loop, or a comprehension, begins before a place in the same line."""
    return _FOR.search(text, max(text.rfind("\n", 0, at) + 1, at - _BEFORE), at) is not None


def runs_on_texts(text: str) -> bool:
    """Whether a text may run a language model, or a pipeline, on one text."""
    return (".generate(" in text and "okenizer" in text) or _runs_pipeline(text)


def _runs_pipeline(text: str) -> bool:
    return "pipeline" in text and _PIPELINE.search(text) is not None


def runs_repeatedly(text: str) -> bool:
    """Whether a text makes batches of size 1 or generates text in a loop, or in a function that a loop calls."""
    if _runs_pipeline(text):
        return True
    singles = chain(places(text, *_INSERTED), (found.start() for found in _SINGLE.finditer(text)))
    return (runs_on_images(text) and any(is_repeated(text, at) for at in singles)) or (
        runs_on_texts(text) and any(is_repeated(text, at) for at in places(text, ".generate("))
    )


def passes_samples(text: str) -> bool:
    """Whether a text reads images, or calls what may run a network: a function of another file may make the batch."""
    return any(word in text for word in (*_READING, *_RUNS))
