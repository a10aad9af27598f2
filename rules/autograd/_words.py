"""Words without which a file contains no inference that a rule can report; shared by the rules about it."""

#: Words that show inference by themselves ...
_SIGNS = (
    *(".eval()", ".train(False", "volatile=True", "volatile = True", "DataLoader("),
    *("loader:", "loader)", "loader,", "oaders["),
    *("def eval", "def _eval", "def test", "def val_", "def val(", "def validate(", "def validation"),
    *("def predict", "def _predict", "def infer", "def act(", "_action("),
)
#: ... and names that mean it in a script, and possibly in a library.
_NAMES = (
    *("def sample", "def generate", "def translate", "def caption", "def extract", "def embed", "def reconstruct"),
    *("def detect", "def transcribe", "def synthesize", "test(", "evaluate(", "validate(", "predict(", "infer("),
)
_SCRIPTS = ("load_state_dict(", "torch.load(", "save_image", "__main__")

INFERENCE_WORDS = ("torch", (*_SIGNS, *_NAMES), (*_SIGNS, *_SCRIPTS))
#: The same, and code that detaches outputs from the graph.
RECORDING_WORDS = ("torch", (*_SIGNS, *_NAMES, ".data.", ".detach()"), (*_SIGNS, *_SCRIPTS))
#: The same as the first, and code that disables gradients.
GRADIENTLESS_WORDS = ("torch", (*_SIGNS, *_NAMES, "no_grad", "inference_mode"), (*_SIGNS, *_SCRIPTS))
