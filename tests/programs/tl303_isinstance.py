"""`isinstance` tells the old `GradScaler` from the new one."""

import torch


def state_of(scaler):
    state = {}
    if isinstance(scaler, torch.cuda.amp.GradScaler):
        state["scaler"] = scaler.state_dict()
    return state


scaler = torch.cuda.amp.GradScaler(enabled=False)
print(state_of(scaler))
