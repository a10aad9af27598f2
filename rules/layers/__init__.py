"""Rules about layers and the kernels that run them."""
