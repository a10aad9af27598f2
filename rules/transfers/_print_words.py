"""Words without which a text shows no tensor of a training step; no heavy imports."""

from __future__ import annotations

import re

from torchlint.source.lexemes import closing_bracket, is_in_name, places

_SINKS = (
    *("print(", "info(", "warning(", "error(", "critical(", "set_postfix(", "set_postfix_str(", "set_description("),
    *("set_description_str(", "add_scalar(", "add_scalars(", "log_metric(", "log_metrics(", "log_value("),
    *("wandb.log(", "tqdm.write("),
)
#: Methods that reduce a tensor to one number.
REDUCTIONS = ("mean", "sum", "max", "min", "norm", "std", "var")
#: What the names of losses and outputs contain, up to their end, if they are neither called nor read; and reductions.
_TENSOR = re.compile(
    r"(?:loss|cost|acc|iou|dice|psnr|err|logit|out|pred|score|energy|nll|elbo|objective|kl|penalty|reg)\w*(?:\[[^\]\n]{1,40}\])?"
    r"(?!\w|\(|\.item|\.shape|\.size|\.avg|\.update)"
    rf"|\.(?:{'|'.join(REDUCTIONS)})\(\)(?!\.item)|\btorch\.(?:{'|'.join(REDUCTIONS)})\(",
    re.IGNORECASE,
)
_REACH = 600  #: characters of the arguments


def shows_tensor(text: str) -> bool:
    """Whether a call such as ``print`` in a block may be given a loss, an output or a reduction."""
    return any(not is_in_name(text, at) and _is_given_tensor(text, at) for at in places(text, *_SINKS))


def _is_given_tensor(text: str, start: int) -> bool:
    row = text.rfind("\n", 0, start) + 1
    if not text[row : row + 2].isspace():
        return False
    end = text.index("(", start) + 1
    stop = closing_bracket(text, end, _REACH)
    return _TENSOR.search(text, end, end + _REACH if stop is None else stop) is not None
