"""Rules about copies between host and device, and about waiting for them."""
