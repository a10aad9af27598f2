"""Rules about optimizers and what is updated with them."""
