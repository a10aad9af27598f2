"""The values of the names of torch and its companion libraries: constants, classes and what a call of them returns."""

from __future__ import annotations

from torchlint.model.semantics import knowledge
from torchlint.model.semantics.knowledge import Kind
from torchlint.model.semantics.value import STRING, UNKNOWN, Device, Role, Value
from torchlint.model.syntax.dotted import last_part


def named_constant(name: str) -> Value:
    if name.startswith("torch.cuda.") and name.endswith("Tensor"):
        return Value(Kind.DTYPE, device=Device.CUDA, name=name)
    if name.startswith("torch.") and name.endswith("Tensor") and name.count(".") == 1:
        return Value(Kind.DTYPE, device=Device.CPU, name=name)
    if name in _DTYPES:
        return Value(Kind.DTYPE, name=name)
    if name in knowledge.KEYS:
        return STRING
    return Value(Kind.UNKNOWN, name=name)


_DTYPES = frozenset(
    f"torch.{name}"
    for name in (
        "float16 bfloat16 float32 float64 half float double int8 int16 int32 int64 long int short uint8 bool "
        "complex64 complex128 channels_last contiguous_format channels_last_3d preserve_format float8_e4m3fn"
    ).split()
)

#: Libraries that run networks themselves, without autograd.
_ENGINES = ("cv2.dnn.", "dlib.", "mediapipe.", "onnxruntime.")
#: How the names of classes in ``torch.utils.data`` end other than datasets.
_NO_DATASETS = ("Sampler", "WorkerInfo")
_LOSS_FUNCTIONS = ("_loss", "cross_entropy", "cross_entropy_with_logits", "kl_div", "nll_loss", "with_logits")


def instance_by_base(name: str) -> Value:
    """What instances of a class deriving from the class called ``name`` are."""
    if name in knowledge.MODULE_BASES or (name.startswith("torch.nn.") and not name.startswith("torch.nn.functional")):
        return Value(Kind.MODULE)
    if name in knowledge.LIGHTNING_MODULES:
        return Value(Kind.MODULE)
    if name == knowledge.DATA_LOADER:
        return Value(Kind.LOADER)
    if name.startswith("torch.optim.") and not name.startswith("torch.optim.lr_scheduler."):
        return Value(Kind.OPTIMIZER)
    last = last_part(name)
    if name in knowledge.DATASET_BASES or name.startswith(("torch.utils.data.", "torchvision.datasets.")):
        return UNKNOWN if last.endswith(_NO_DATASETS) else Value(Kind.DATASET)
    if name.startswith(("transformers.", "diffusers.", "timm.", "torchvision.models.")):
        return Value(Kind.MODULE) if last.endswith(("Model", "Mixin", "Net", "PreTrainedModel")) else UNKNOWN
    if last in ("Dataset", "IterableDataset", "VisionDataset") and name.startswith("."):
        return Value(Kind.DATASET, sure=False)
    if last.endswith(("PreTrainedModel", "ModelMixin", "VisionModel", "TextModel", "BaseModel")):
        return Value(Kind.MODULE, sure=False)
    if last.endswith("Optimizer"):  # of another library
        return Value(Kind.OPTIMIZER, sure=False)
    return UNKNOWN


def instance_by_name(name: str) -> Value:
    """What calling the library class or function ``name`` gives."""
    if ".__" in name:  # ``models.__getattribute__(name)`` and ``models.__dict__.get(name)`` may be anything
        return UNKNOWN
    last = last_part(name)
    if name.startswith("torch.nn.functional."):
        return Value(Kind.TENSOR, role=Role.LOSS if last.endswith(_LOSS_FUNCTIONS) else None)
    if name.startswith("torch.nn."):
        if name.startswith(("torch.nn.init.", "torch.nn.utils.")):
            return Value(Kind.TENSOR, name=name) if name in knowledge.GRADIENT_NORMS else UNKNOWN
        if last in ("Parameter", "Buffer"):
            return Value(Kind.TENSOR, name=name)
        if last.endswith("Loss"):
            return Value(Kind.LOSS, name=name)
        return Value(Kind.MODULE, name=name) if last[:1].isupper() else UNKNOWN
    if name == "torch.optim.Optimizer" or name.startswith("torch.optim."):
        kind = Kind.SCHEDULER if name.startswith("torch.optim.lr_scheduler.") else Kind.OPTIMIZER
        return Value(kind, name=name) if last[:1].isupper() else UNKNOWN
    if name.endswith(".GradScaler") and name.startswith("torch."):
        return Value(Kind.SCALER, name=name)
    if name in ("torch.utils.data.DataLoader",):
        return Value(Kind.LOADER, name=name)
    if name.startswith(("torch.utils.data.", "torchvision.datasets.", "torchaudio.datasets.")) and last[:1].isupper():
        if last.endswith(_NO_DATASETS):
            return Value(Kind.OTHER, name=name)
        return Value(Kind.DATASET, name=name)
    if name.startswith(("torchvision.models.", "timm.create_model", "timm.models.", "segmentation_models_pytorch.")):
        return Value(Kind.MODULE, name=name)
    if name in knowledge.ON_CUDA:
        return Value(Kind.MODULE, device=Device.CUDA, name=name)
    if name.startswith("torchvision.transforms."):
        return Value(Kind.OTHER, name=name)
    if name == "torch.Tensor":
        return Value(Kind.TENSOR, name=name)
    if name.startswith("torch.cuda.") and last.endswith("Tensor"):
        return Value(Kind.TENSOR, device=Device.CUDA, name=name)
    if name == "torch.hub.load":
        return Value(Kind.MODULE, name=name, sure=False)
    if name.startswith("torch.") and name.count(".") == 1:
        if last in knowledge.NOT_TENSOR or last.startswith("is_"):
            return UNKNOWN
        is_on_host = last in knowledge.FACTORIES and not last.endswith("_like")
        return Value(Kind.TENSOR, name=name, device=Device.CPU if is_on_host else None)
    if name.startswith(("torch.linalg.", "torch.fft.", "torch.special.")):
        return Value(Kind.TENSOR, name=name)
    if name.startswith("numpy."):
        return Value(Kind.ARRAY, name=name)
    if name in _MODULE_CLASSES:
        return Value(Kind.MODULE, name=name)
    return Value(Kind.OTHER, name=name) if name.startswith(_ENGINES) else UNKNOWN


_MODULE_CLASSES = knowledge.MODULE_BASES | {"torch.nn.Module"}


def is_companion(owner: str) -> bool:
    """Whether a class with ``from_pretrained`` accompanies a network: a tokenizer, a configuration, a scheduler."""
    last = last_part(owner)
    return "Processor" in last or last.endswith(("Tokenizer", "TokenizerFast", "Config", "Extractor", "Scheduler"))
