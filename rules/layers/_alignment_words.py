"""Words of programs that train in 16 bits, and of networks whose sizes are fixed; no heavy imports."""

from __future__ import annotations

import re

#: Signs of 16-bit training.
HALF = re.compile(
    r"autocast\(|\.half\(\)|\.bfloat16\(\)|\b(?:fp16|bf16)\s*=\s*True|precision\s*=\s*['\"]?(?:16|bf16)|mixed_precision\s*="
)
TRAINS = re.compile(r"\.backward\(|\.fit\(|\.train\(")
#: Signs of a network whose sizes are given by a checkpoint, or that a compiler pads.
FIXED = re.compile(
    r"\.from_pretrained\((?<!Tokenizer\.from_pretrained\()(?<!TokenizerFast\.from_pretrained\()"
    r"(?<!tokenizer\.from_pretrained\()|def from_pretrained"
    r"|torch\.compile\b|\.compile\("
)
