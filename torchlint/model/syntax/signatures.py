"""The parameters of functions and methods of torch and its companions, in order."""

from __future__ import annotations

#: Positional order of parameters, for calls that pass them without keyword.
SIGNATURES = {
    "torch.utils.data.DataLoader": (
        "dataset",
        "batch_size",
        "shuffle",
        "sampler",
        "batch_sampler",
        "num_workers",
        "collate_fn",
        "pin_memory",
        "drop_last",
        "timeout",
        "worker_init_fn",
        "multiprocessing_context",
        "generator",
    ),
    "torch.cuda.amp.autocast": ("enabled", "dtype", "cache_enabled"),
    "torch.cpu.amp.autocast": ("enabled", "dtype", "cache_enabled"),
    "torch.autocast": ("device_type", "dtype", "enabled", "cache_enabled"),
    "torch.cuda.amp.GradScaler": ("init_scale", "growth_factor", "backoff_factor", "growth_interval", "enabled"),
    "torch.cpu.amp.GradScaler": ("init_scale", "growth_factor", "backoff_factor", "growth_interval", "enabled"),
    "torch.amp.GradScaler": ("device", "init_scale", "growth_factor", "backoff_factor", "growth_interval", "enabled"),
    "torch.compile": ("model",),
    "torch.device": ("type", "index"),
    "torch.set_grad_enabled": ("mode",),
    "torch.inference_mode": ("mode",),
    "torch.utils.data.Subset": ("dataset", "indices"),
    "torch.utils.checkpoint.checkpoint_sequential": ("functions", "segments", "input", "use_reentrant"),
    "torch.autograd.profiler.profile": ("enabled",),
    "torch.autograd.profiler.emit_nvtx": ("enabled", "record_shapes"),
    "torch.nn.DataParallel": ("module", "device_ids", "output_device", "dim"),
    "torch.nn.parallel.data_parallel": ("module", "inputs", "device_ids", "output_device", "dim", "module_kwargs"),
    "torch.utils.data.random_split": ("dataset", "lengths", "generator"),
}

#: ... and of methods of tensors, modules, optimizers and Lightning's trainers, by their bare names, from the
#: documentation of torch 2 and Lightning 2. Of other methods, such as ``Module.compile`` and ``Tensor.numpy``, rules
#: only read what is passed by keyword.
METHOD_SIGNATURES = {
    "backward": ("gradient", "retain_graph", "create_graph", "inputs"),
    "copy_": ("src", "non_blocking"),
    "cuda": ("device", "non_blocking", "memory_format"),
    "fit": ("model", "train_dataloaders", "val_dataloaders", "datamodule", "ckpt_path"),
    "register_buffer": ("name", "tensor", "persistent"),
    "register_parameter": ("name", "param"),
    "requires_grad_": ("requires_grad",),
    "to": ("device",),  # or a dtype, or another tensor: which parameter comes next depends on it
    "train": ("mode",),
    "zero_grad": ("set_to_none",),
}
