"""Names that only methods of a program have, not those of libraries: several words, and not a common name."""

from __future__ import annotations

#: Names of several words that methods of libraries have too.
_OF_LIBRARIES = frozenset(
    "state_dict load_state_dict zero_grad named_parameters named_modules named_children named_buffers add_scalar "
    "add_scalars add_image add_images add_figure add_histogram add_text add_graph set_description set_postfix "
    "register_buffer register_parameter register_forward_hook requires_grad_ manual_seed parse_args add_argument "
    "parse_known_args get_lr get_last_lr set_epoch from_pretrained save_pretrained to_dict from_dict to_json "
    "from_config get_item is_cuda log_metrics log_dict log_hyperparams add_module share_memory init_weights "
    "num_samples batch_size train_loader val_loader test_loader train_dataloader val_dataloader test_dataloader "
    "on_epoch_end on_batch_end on_train_begin training_step validation_step test_step configure_optimizers "
    "load_from_checkpoint save_checkpoint encode_batch encode_plus batch_encode_plus convert_tokens_to_ids "
    "create_model get_model get_config reset_parameters partial_fit fit_transform predict_proba get_params".split()
)


def is_of_program(name: str) -> bool:
    """Whether a method of this name is one of the program, whatever the object is."""
    return "_" in name.strip("_") and not name.startswith("__") and name not in _OF_LIBRARIES
