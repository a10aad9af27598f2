"""The model of one file: what a rule may ask."""
