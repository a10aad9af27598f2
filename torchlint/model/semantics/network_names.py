"""Names that networks usually have: a hint where nothing else is known of a value."""

from __future__ import annotations

#: The names of networks, and how longer ones end: ``text_encoder``.
NETWORK_NAMES = tuple(
    "model net network classifier encoder decoder backbone generator discriminator transformer unet vae gan actor "
    "critic policy detector segmentor".split()
)
#: How the names of networks begin, if they do not end with such a word: ``model_g``.
_BEGINNINGS = tuple(f"{word}_" for word in NETWORK_NAMES)
#: How the names of what a network takes or gives end, or of its settings: ``encoder_outputs``, ``decoder_lr``.
_DATA = tuple(
    f"_{word}{end}"
    for word in (
        "action dim entropy feat feature fun grad gradient hidden id input logit logp logpp logprob loss lr mask mean "
        "name out output param path pred prob sample score size state std token weight"
    ).split()
    for end in ("", "s")
)
#: Other words that end like the name of a network: ``scale_factor``.
_OTHER_WORDS = ("factor", "organ")
#: Beginnings of names that end like a network's and are functions: ``load_model``, ``accelerator.prepare_model``.
_VERBS = tuple(
    f"{verb}_"
    for verb in (
        "add apply average benchmark broadcast build calibrate check clone compile compute configure construct "
        "convert copy count create define delete deploy describe download estimate eval evaluate export fetch find "
        "fit freeze fuse generate get init initialize inspect instantiate is list load log make merge move optimize "
        "parse patch plot prepare print profile prune publish pull push quantize read register reload remove replace "
        "reset restore resume return run save script search select serialize set setup shard show split start stop "
        "summarize swap sync test trace train unfreeze unload unwrap update upload use validate visualize wrap write"
    ).split()
)


def names_function(name: str) -> bool:
    """Whether a name begins like that of a function, perhaps a private one, whatever it ends with."""
    return name.lstrip("_").startswith(_VERBS)


def names_network(name: str) -> bool:
    """Whether a name in lower case, other than that of a function, is one that networks have."""
    stem = name.rstrip("0123456789_")
    if stem.startswith(_BEGINNINGS):
        return not stem.endswith(_DATA)
    if stem.endswith(_OTHER_WORDS):
        return False
    return stem.endswith(NETWORK_NAMES) or (name.startswith("net") and len(name) <= 8)
