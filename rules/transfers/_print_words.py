"""Words without which a text shows no tensor of a training step; no heavy imports."""

from __future__ import annotations

import re

from torchlint.source.lexemes import closing_bracket, is_in_name, places

_SINKS = (
    *("print(", "info(", "warning(", "error(", "critical(", "set_postfix(", "set_postfix_str(", "set_description("),
    *("set_description_str(", "add_scalar(", "add_scalars(", "log_metric(", "log_metrics(", "log_value("),
    *("wandb.log(", "tqdm.write("),
)
#: What is before the values that a text is made of.
FORMATS = (".format(", '" % ', "' % ")
#: The beginnings of texts that contain values.
F_STRINGS = (' f"', '(f"', " f'", "(f'")
#: Methods that reduce a tensor to one number.
REDUCTIONS = ("mean", "sum", "max", "min", "norm", "std", "var")
#: What the names of losses and outputs contain, up to their end, if they are not called or read; names of dictionaries
#: and of their values; means; reductions.
_TENSOR = re.compile(
    r"(?:loss|cost|acc|iou|dice|psnr|err|logit|out|pred|score|energy|entropy|nll|elbo|objective|kl|"
    r"penalty|reg|mse|mae|bce|kld|recon|prec|recall|correct|ssim|result|grad|reward)\w*(?:\[[^\]\n]{1,40}\])?"
    r"(?!\w|\(|\.item|\.shape|\.size|\.avg|\.update)"
    r"|(?:dict|logs?|metrics|stats|norm|l1|l2|\bv|\bval|values?|\bitem)\b(?![\w(])"
    rf"|\.(?:avg|val)\b|\.(?:{'|'.join(REDUCTIONS)})\(\)(?!\.item)|\btorch\.(?:{'|'.join(REDUCTIONS)})\(",
    re.IGNORECASE,
)
#: ... in a field of an f-string.
_FIELD = re.compile(r"\{[^{}\n]{0,40}?(?:" + _TENSOR.pattern + ")", re.IGNORECASE)
_REACH = 600  #: characters of the arguments


def shows_tensor(text: str) -> bool:
    """Whether a call such as ``print`` in a block may be given a loss, an output or a reduction."""
    sinks = (at for at in places(text, *_SINKS) if not is_in_name(text, at))
    if any(_is_given_tensor(text, at) for at in (*sinks, *places(text, *FORMATS))):
        return True
    return any(
        _is_in_block(text, at) and _FIELD.search(text, at, _row_end(text, at)) for at in places(text, *F_STRINGS)
    )


def _is_given_tensor(text: str, start: int) -> bool:
    if not _is_in_block(text, start):
        return False
    bracket = text.find("(", start, _row_end(text, start))
    if bracket < 0:  # `"%.3f" % loss`
        return _TENSOR.search(text, start, _row_end(text, start)) is not None
    stop = closing_bracket(text, bracket + 1, _REACH)
    return _TENSOR.search(text, start, bracket + _REACH if stop is None else stop) is not None


def _row_end(text: str, at: int) -> int:
    """The end of a row, or of what is looked at of a long one."""
    end = text.find("\n", at, at + _REACH)
    return min(len(text), at + _REACH) if end < 0 else end


def _is_in_block(text: str, at: int) -> bool:
    """Whether the row of a place is indented; a long row may be."""
    row = text.rfind("\n", max(0, at - _REACH), at) + 1
    return (row == 0 and at > _REACH) or text[row : row + 2].isspace()
