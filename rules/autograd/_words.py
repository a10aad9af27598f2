"""Words without which a file contains no inference that a rule can report; shared by the rules about it."""

import re

#: Words that show inference by themselves ...
_SIGNS = (
    *(".eval()", ".train(False", "volatile=True", "volatile = True", "DataLoader("),
    *("loader:", "loader)", "loader,", "loader.__iter__", "oaders[", "_action(", "_actions("),
    re.compile(r"def (?:_?eval|test|val[_(]|validate[_(]|validation|_?predict|infer|act\()"),
)
#: ... and names that mean it in a script, and possibly in a library.
_NAMES = (
    re.compile(
        r"def (?:sample|generate|translate|caption|extract|embed|reconstruct|detect|transcribe|synthesize|decode|encode"
        r"|recognize|segment|classify|beam_search)"
    ),
    *("test(", "evaluate(", "validate(", "predict(", "infer("),
)
_SCRIPTS = ("load_state_dict(", "torch.load(", "save_image", "__main__")

#: Code of an object that has a network, which may be in evaluation mode by another file.
_OWNED = ("self.model.", "self.model(", "self.net.", "self.net(")

#: What gives networks in evaluation mode.
_GIVEN = ".from_pretrained("
#: What makes networks that measure how alike images are, and that record gradients.
METRIC = "LPIPS("
#: Code that detaches outputs from the graph. A file may get its network from one that imports torch.
_DETACHED = (
    ".detach().cpu()",
    ".detach().numpy()",
    ".data.cpu()",
    ".cpu().data",
    re.compile(r"return [^\n]{1,80}\.detach\(\)"),
)
#: Code that trains, in which outputs may be used without their graph.
_TRAINED = ".backward("
#: A function that computes a loss, maybe from detached outputs, for another file that trains.
_LOSS = re.compile(r"def \w{0,40}loss")
#: Functions that read a tensor, by their names: `float(x)`, `np.array(x)`.
CONVERTING = r"(?<![\w.])(?:float|int)\(|\b(?:as)?array\("
#: Indices of maxima and the like, which an assignment unpacks: `_, best = torch.max(scores, 1)`.
UNPACKING = r",[ ]?\w+\)?[ ]?=[ ]?[^\n]{0,300}(?:max|min|topk|sort|median|kthvalue|mode)\("
RECORDING_WORDS = (
    (
        *_SIGNS,
        *_NAMES,
        ".data.",
        ".data[",
        ".data)",
        ".data,",
        ").data",
        ".detach()",
        ".item()",
        "argmax(",
        ".sample()",
        "torchaudio.save(",
        ")[1]",
        _GIVEN,
        METRIC,
        re.compile(CONVERTING),
        re.compile(UNPACKING),
    ),
    (*_SIGNS, *_SCRIPTS, *_DETACHED, *_OWNED, ".detach(),", _GIVEN, METRIC, _TRAINED, _LOSS),
)
#: Code that disables gradients counts as well.
GRADIENTLESS_WORDS = ((*_SIGNS, *_NAMES, "no_grad", "inference_mode"), (*_SIGNS, *_SCRIPTS))
