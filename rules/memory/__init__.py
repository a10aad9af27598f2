"""Rules about memory: what is allocated, freed and copied."""
