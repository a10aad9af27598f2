"""What torch and its companions call things: canonical names, signatures, and what a call gives back."""

from __future__ import annotations

import re
from enum import Enum


class Kind(str, Enum):
    """What a value is, as far as a rule may care."""

    UNKNOWN = "unknown"
    NONE = "none"
    TENSOR = "tensor"
    ARRAY = "array"  #: numpy
    MODULE = "module"
    LOADER = "loader"
    BATCH = "batch"
    OPTIMIZER = "optimizer"
    SCHEDULER = "scheduler"
    SCALER = "scaler"
    LOSS = "loss"  #: a criterion: a callable that gives a scalar tensor
    DATASET = "dataset"
    DEVICE = "device"
    DTYPE = "dtype"
    NUMBER = "number"
    STRING = "string"
    SEQUENCE = "sequence"  #: list, tuple or other container
    CLASS = "class"
    FUNCTION = "function"
    CONTEXT = "context"  #: a context manager as a value
    TRAINER = "trainer"  #: accelerate, fabric, lightning, transformers: does its own precision and placement
    OTHER = "other"  #: known, and none of the above


#: Names under which torch exports the same thing, mapped to the one that rules use.
CANONICAL = {
    "torch.torch": "torch",
    "torch.utils.data.dataloader.DataLoader": "torch.utils.data.DataLoader",
    "torch.utils.data.dataset.Dataset": "torch.utils.data.Dataset",
    "torch.utils.data.dataset.IterableDataset": "torch.utils.data.IterableDataset",
    "torch.utils.data.dataset.TensorDataset": "torch.utils.data.TensorDataset",
    "torch.utils.data.dataset.Subset": "torch.utils.data.Subset",
    "torch.utils.data.dataset.ConcatDataset": "torch.utils.data.ConcatDataset",
    "torch.utils.data.dataset.random_split": "torch.utils.data.random_split",
    "torch.sparse.torch.eye": "torch.eye",
    "torch.amp.autocast": "torch.autocast",
    "torch.amp.autocast_mode.autocast": "torch.autocast",
    "torch.amp.grad_scaler.GradScaler": "torch.amp.GradScaler",
    "torch.GradScaler": "torch.amp.GradScaler",
    "torch.cuda.amp.autocast_mode.autocast": "torch.cuda.amp.autocast",
    "torch.cuda.amp.grad_scaler.GradScaler": "torch.cuda.amp.GradScaler",
    "torch.cuda.amp.autocast_mode.custom_fwd": "torch.cuda.amp.custom_fwd",
    "torch.cuda.amp.autocast_mode.custom_bwd": "torch.cuda.amp.custom_bwd",
    "torch.cpu.amp.autocast_mode.autocast": "torch.cpu.amp.autocast",
    "torch.cpu.amp.grad_scaler.GradScaler": "torch.cpu.amp.GradScaler",
    "torch.autograd.no_grad": "torch.no_grad",
    "torch.autograd.grad_mode.no_grad": "torch.no_grad",
    "torch.autograd.inference_mode": "torch.inference_mode",
    "torch.autograd.grad_mode.inference_mode": "torch.inference_mode",
    "torch.autograd.set_grad_enabled": "torch.set_grad_enabled",
    "torch.autograd.grad_mode.set_grad_enabled": "torch.set_grad_enabled",
    "torch.autograd.enable_grad": "torch.enable_grad",
    "torch.nn.parallel.DataParallel": "torch.nn.DataParallel",
    "torch.nn.parallel.data_parallel.DataParallel": "torch.nn.DataParallel",
    "torch.nn.parallel.distributed.DistributedDataParallel": "torch.nn.parallel.DistributedDataParallel",
    "torch._dynamo.optimize": "torch._dynamo.optimize",
    "torch.multiprocessing.spawn.spawn": "torch.multiprocessing.spawn",
    "lightning.pytorch.LightningModule": "pytorch_lightning.LightningModule",
    "lightning.LightningModule": "pytorch_lightning.LightningModule",
    "lightning.pytorch.LightningDataModule": "pytorch_lightning.LightningDataModule",
    "lightning.LightningDataModule": "pytorch_lightning.LightningDataModule",
    "lightning.pytorch.Trainer": "pytorch_lightning.Trainer",
    "lightning.Trainer": "pytorch_lightning.Trainer",
    "lightning.pytorch.trainer.Trainer": "pytorch_lightning.Trainer",
    "lightning.pytorch.trainer.trainer.Trainer": "pytorch_lightning.Trainer",
    "pytorch_lightning.trainer.Trainer": "pytorch_lightning.Trainer",
    "pytorch_lightning.trainer.trainer.Trainer": "pytorch_lightning.Trainer",
    "lightning.Fabric": "lightning.fabric.Fabric",
    "transformers.trainer.Trainer": "transformers.Trainer",
    "transformers.trainer_seq2seq.Seq2SeqTrainer": "transformers.Seq2SeqTrainer",
    "pytorch_lightning.core.lightning.LightningModule": "pytorch_lightning.LightningModule",
    "pytorch_lightning.core.LightningModule": "pytorch_lightning.LightningModule",
    # loaders of libraries that pass their keyword arguments on to torch's
    "torch_geometric.data.DataLoader": "torch.utils.data.DataLoader",
    "torch_geometric.data.dataloader.DataLoader": "torch.utils.data.DataLoader",
    "torch_geometric.loader.DataLoader": "torch.utils.data.DataLoader",
    "torch_geometric.loader.dataloader.DataLoader": "torch.utils.data.DataLoader",
    "monai.data.DataLoader": "torch.utils.data.DataLoader",
    "monai.data.dataloader.DataLoader": "torch.utils.data.DataLoader",
    "torchdata.stateful_dataloader.StatefulDataLoader": "torch.utils.data.DataLoader",
}

#: Where torch defines what it exports as ``torch.nn``.
_LAYERS = "torch.nn.modules."

#: What ``from <module> import *`` brings that rules ask about.
STAR_EXPORTS = {
    "torch": ("no_grad", "inference_mode", "compile", "autocast", "device", "cuda", "nn", "optim", "tensor", "zeros"),
    "torch.nn": ("Module", "Linear", "Conv2d", "Sequential", "CrossEntropyLoss", "DataParallel"),
    "torch.utils.data": ("DataLoader", "Dataset", "IterableDataset", "TensorDataset", "Subset", "random_split"),
    "torch.optim": ("Adam", "AdamW", "SGD"),
    "torch.cuda.amp": ("autocast", "GradScaler"),
    "torch.amp": ("autocast", "GradScaler"),
    "tqdm": ("tqdm", "trange"),
    "tqdm.auto": ("tqdm", "trange"),
    "tqdm.notebook": ("tqdm", "trange"),
}

NO_GRAD = "torch.no_grad"
INFERENCE_MODE = "torch.inference_mode"
ENABLE_GRAD = "torch.enable_grad"
SET_GRAD_ENABLED = "torch.set_grad_enabled"
GRAD_MODES = frozenset({NO_GRAD, INFERENCE_MODE, ENABLE_GRAD, SET_GRAD_ENABLED})
#: Layers and functions of torch.nn that multiply matrices; cuDNN runs recurrent layers as it runs convolutions.
PRODUCTS = frozenset(
    "Linear linear MultiheadAttention Transformer TransformerEncoder TransformerDecoder TransformerEncoderLayer "
    "TransformerDecoderLayer scaled_dot_product_attention multi_head_attention_forward".split()
)
AUTOCASTS = frozenset({"torch.autocast", "torch.cuda.amp.autocast", "torch.cpu.amp.autocast"})
DATA_LOADER = "torch.utils.data.DataLoader"
#: Calls that give the accelerator that torch has found, or set it.
ACCELERATORS = tuple(
    f"torch.accelerator.{name}"
    for name in ("current_accelerator", "current_device_index", "set_device_index", "current_device_idx")
)
SPAWN = "torch.multiprocessing.spawn"

MODULE_BASES = frozenset(
    {
        "torch.nn.Module",
        "pytorch_lightning.LightningModule",
        "transformers.PreTrainedModel",
        "diffusers.ModelMixin",
        "mmcv.runner.BaseModule",
        "mmengine.model.BaseModel",
        "mmengine.model.BaseModule",
    }
)
LIGHTNING_MODULES = frozenset({"pytorch_lightning.LightningModule", "pytorch_lightning.LightningDataModule"})
DATASET_BASES = frozenset({"torch.utils.data.Dataset", "torch.utils.data.IterableDataset"})
IN_MEMORY_DATASETS = frozenset({"torch.utils.data.TensorDataset"})

#: Functions that return a number.
NUMBERS = frozenset({"torch.distributed.get_rank", "torch.distributed.get_world_size", "torch.cuda.device_count"})
#: The class of parameters, under its two names.
PARAMETER = frozenset({"torch.nn.Parameter", "torch.nn.parameter.Parameter"})
#: Functions that limit the norm of all gradients, and those that return it, a tensor.
GRADIENT_CLIPS = frozenset({"torch.nn.utils.clip_grad_norm_", "torch.nn.utils.clip_grad_norm"})
GRADIENT_NORMS = GRADIENT_CLIPS | {"torch.nn.utils.get_total_norm"}
#: Keys of dictionaries: ``subject["scan"][torchio.DATA]``.
KEYS = frozenset({"torchio.DATA", "torchio.AFFINE", "torchio.LOCATION"})
#: Imports a module by a name that is known at run time only: its attributes are out of sight.
IMPORT_MODULE = "importlib.import_module"

#: Calls that give back their first argument, wrapped.
WRAPPERS = frozenset(
    {
        "torch.compile",
        "torch.nn.DataParallel",
        "torch.nn.parallel.DistributedDataParallel",
        "torch.distributed.fsdp.FullyShardedDataParallel",
        "torch.nn.SyncBatchNorm.convert_sync_batchnorm",
        "torch.jit.script",
        "torch.jit.trace",
        "torch.jit.freeze",
        "apex.parallel.DistributedDataParallel",
        "torch.autograd.Variable",
        "torch._dynamo.optimize",
    }
)

#: Calls that give a copy of their argument.
COPIES = frozenset({"copy.copy", "copy.deepcopy"})

#: Calls that iterate their first argument unchanged: their value loops like the argument.
ITERATION_WRAPPERS = frozenset(
    {
        "builtins.iter",
        "builtins.list",
        "builtins.tuple",
        "builtins.reversed",
        "builtins.sorted",
        "tqdm.tqdm",
        "tqdm.auto.tqdm",
        "tqdm.notebook.tqdm",
        "tqdm.std.tqdm",
        "tqdm.rich.tqdm",
        "tqdm.autonotebook.tqdm",
        "tqdm.tqdm_notebook",
        "tqdm.asyncio.tqdm",
        "rich.progress.track",
        "itertools.islice",
        "itertools.cycle",
        "itertools.chain",
        "alive_progress.alive_it",
        "progressbar.progressbar",
        "fastprogress.progress_bar",
        "fastprogress.fastprogress.progress_bar",
    }
)
#: What is made with the function to run for every batch as its first argument.
ENGINES = frozenset({"ignite.engine.Engine", "ignite.engine.engine.Engine"})

#: Methods of trainers that give back what they are given, ready for the device: `accelerator.prepare(net, loader)`.
PREPARING = frozenset("prepare prepare_data_loader prepare_model setup setup_dataloaders setup_module".split())
#: The class of Accelerate whose objects prepare networks and loaders.
ACCELERATE = frozenset({"accelerate.Accelerator", "accelerate.accelerator.Accelerator"})
#: Libraries that choose precision and placement themselves.
TRAINERS = ACCELERATE | frozenset(
    {
        "lightning.fabric.Fabric",
        "pytorch_lightning.Trainer",
        "pytorch_lightning.Trainer.from_argparse_args",
        "transformers.Trainer",
        "transformers.Seq2SeqTrainer",
        "deepspeed.initialize",
        "ignite.engine.create_supervised_trainer",
    }
)

#: Functions of deepspeed whose result names the accelerator: ``get_accelerator().device_name()``.
DEEPSPEED_ACCELERATORS = frozenset(
    {
        "deepspeed.get_accelerator",
        "deepspeed.accelerator.get_accelerator",
        "deepspeed.accelerator.real_accelerator.get_accelerator",
    }
)

#: Functions of libraries that give a network, on CUDA unless their configuration names another device.
ON_CUDA = ("detectron2.modeling.build_model", "detectron2.engine.DefaultTrainer.build_model")

#: Libraries that are built on torch, and whose name does not say so.
TORCH_LIBRARIES = frozenset(
    "accelerate allennlp apex audiocraft botorch captum catalyst colossalai composer deepspeed detectron2 "
    "diffusers fairscale fairseq fairseq2 fastai flair gpytorch ignite kornia lightning megatron mmcls mmcv mmdet "
    "mmengine mmpretrain mmseg monai open_clip peft pyro sentence_transformers skorch stable_baselines3 timm "
    "transformers trl ultralytics unsloth vllm xformers".split()
)

#: Module classes of torch.nn whose behaviour depends on training or evaluation mode.
MODE_DEPENDENT = ("Dropout", "BatchNorm", "SyncBatchNorm", "RReLU", "AlphaDropout")
#: ... and those that contain such layers or take a faster path in evaluation mode.
MODE_DEPENDENT_WHOLE = frozenset(
    {
        "torch.nn.MultiheadAttention",
        "torch.nn.Transformer",
        "torch.nn.TransformerEncoder",
        "torch.nn.TransformerDecoder",
        "torch.nn.TransformerEncoderLayer",
        "torch.nn.TransformerDecoderLayer",
    }
)

#: ``torch.<name>(...)`` that makes a tensor out of sizes or data.
FACTORIES = frozenset(
    {
        "arange",
        "as_tensor",
        "empty",
        "empty_like",
        "eye",
        "from_numpy",
        "full",
        "full_like",
        "linspace",
        "logspace",
        "normal",
        "ones",
        "ones_like",
        "rand",
        "rand_like",
        "randint",
        "randint_like",
        "randn",
        "randn_like",
        "randperm",
        "tensor",
        "zeros",
        "zeros_like",
        "FloatTensor",
        "LongTensor",
        "Tensor",
        "IntTensor",
        "ByteTensor",
        "BoolTensor",
        "HalfTensor",
        "DoubleTensor",
    }
)

#: ``torch.<name>(...)`` that gives no tensor: a number, a type, a setting, or what another function gives.
NOT_TENSOR = frozenset(
    "Generator Size allclose are_deterministic_algorithms_enabled autocast autocast_decrement_nesting "
    "autocast_increment_nesting broadcast_shapes can_cast clear_autocast_cache compile compiled_with_cxx11_abi cond "
    "cudnn_is_acceptable device dtype enable_grad equal export finfo fork get_autocast_cpu_dtype get_autocast_dtype "
    "get_autocast_gpu_dtype get_autocast_ipu_dtype get_autocast_xla_dtype get_default_device get_default_dtype "
    "get_deterministic_debug_mode get_device get_device_module get_file_path get_float32_matmul_precision "
    "get_num_interop_threads get_num_threads iinfo inference_mode initial_seed init_num_threads is_tensor layout load "
    "manual_seed memory_format no_grad numel promote_types q_per_channel_axis q_scale q_zero_point qscheme "
    "result_type save seed set_anomaly_enabled set_autocast_cache_enabled set_autocast_enabled set_default_device "
    "set_default_dtype set_default_tensor_type set_deterministic_debug_mode set_float32_matmul_precision "
    "set_flush_denormal set_grad_enabled set_num_interop_threads set_num_threads set_printoptions set_rng_state "
    "set_warn_always sym_float sym_int sym_ite sym_max sym_min sym_not sym_sqrt sym_sum to_dlpack typename "
    "use_deterministic_algorithms vmap wait while_loop".split()
)

#: Methods that add to a list or a deque, and those that add to any container.
LIST_ADDING = frozenset({"append", "appendleft", "extend", "insert"})
ADDING = LIST_ADDING | {"add", "setdefault", "update"}

#: Methods of a tensor that leave it no tensor.
TENSOR_EXITS = {
    "item": Kind.NUMBER,
    "tolist": Kind.SEQUENCE,
    "numpy": Kind.ARRAY,
    "size": Kind.OTHER,
    "dim": Kind.NUMBER,
    "numel": Kind.NUMBER,
    "backward": Kind.NONE,
    "data_ptr": Kind.NUMBER,
    "stride": Kind.OTHER,
    "is_contiguous": Kind.OTHER,
    "element_size": Kind.NUMBER,
    "nelement": Kind.NUMBER,
    "get_device": Kind.NUMBER,
    "ndimension": Kind.NUMBER,
    "dense_dim": Kind.NUMBER,
    "sparse_dim": Kind.NUMBER,
    "storage_offset": Kind.NUMBER,
    "q_scale": Kind.NUMBER,
    "q_zero_point": Kind.NUMBER,
    **dict.fromkeys(
        "allclose const_data_ptr dim_order equal has_names is_coalesced is_complex is_conj is_distributed "
        "is_floating_point is_inference is_neg is_nonzero is_pinned is_same_size is_set_to is_shared is_signed "
        "q_per_channel_axis qscheme record_stream register_hook register_post_accumulate_grad_hook retain_grad "
        "storage storage_type untyped_storage".split(),
        Kind.OTHER,
    ),
    "type_as": Kind.TENSOR,
}

#: Names that a loader or a loss usually bears; a hint where the value itself is out of sight.
LOADER_NAMES = ("loader", "dataloader", "data_loader", "_dl", "train_iter", "test_iter", "valid_iter", "val_iter")
LOSS_NAMES = ("criterion", "loss_fn", "loss_func", "loss_function", "criterions", "crit")

#: transformers and diffusers hand their models out in evaluation mode.
EVAL_BY_DEFAULT_PACKAGES = ("transformers.", "diffusers.", "sentence_transformers.", "peft.")
#: Networks that measure how alike images are. They are made in evaluation mode, with layers that could be trained.
METRIC_NETWORKS = frozenset({"lpips.LPIPS"})

#: Methods of a network, other than its forward, that run it with the caller's grad mode ...
ENCODING_METHODS = frozenset(
    {
        *("encode", "decode", "encode_image", "encode_text", "extract_features", "extract_feature"),
        *("forward_features", "get_intermediate_layers", "get_image_features", "get_text_features"),
    }
)
#: ... and those of which only its class knows under which mode.
RUNNING_METHODS = ENCODING_METHODS | {"generate", "sample", "reverse", "infer", "inference", "predict", "reconstruct"}
#: Methods by which a network computes its own loss, if they run it.
LOSS_METHODS = frozenset(
    "get_loss compute_loss calc_loss calculate_loss loss loss_fn training_loss training_losses training_step "
    "validation_step train_step p_losses log_prob nll elbo".split()
)

#: Beginnings of the names of torch.nn classes without parameters.
PARAMETERLESS = (
    "ReLU", "LeakyReLU", "GELU", "SiLU", "ELU", "SELU", "CELU", "Mish", "Hard", "Soft", "LogSoftmax", "LogSigmoid",
    "Sigmoid", "Tanh", "Threshold", "GLU", "MaxPool", "AvgPool", "Adaptive", "LPPool", "MaxUnpool", "Fractional",
    "Upsample", "Upsampling", "Flatten", "Unflatten", "Unfold", "Fold", "Dropout", "AlphaDropout", "FeatureAlpha",
    "Identity", "ZeroPad", "ReflectionPad", "ReplicationPad", "ConstantPad", "CircularPad", "Pixel", "Channel",
    "CosineSimilarity", "PairwiseDistance",
)  # fmt: skip
#: Names of callables that are modules, and no networks; a ``model_with_loss`` and a ``CTCModel`` are.
NO_NETWORK = re.compile(
    r"^(?!.*(?:model|net|network)$).*?(?:(?<!with)(?<!with_)(?:loss|criteri|label_?smooth)|metric|processor|preprocess|tokeni[sz]"
    r"|transform$|transforms$|augment|collat|greedy|beam|ctc|featuri[sz]er|normali[sz]er$|mean_?std$)",
    re.IGNORECASE,
)


def canonical(name: str) -> str:
    """The name that rules use of what torch exports under several: ``torch.nn.GRU`` of ``torch.nn.modules.rnn.GRU``."""
    if name.startswith(_LAYERS):
        last = name.rpartition(".")[2]
        return f"torch.nn.{last}" if last[:1].isupper() else name
    return CANONICAL.get(name, name)
