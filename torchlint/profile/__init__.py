"""What a trace of ``torch.profiler`` says about findings; and how such a trace is made of a script."""
