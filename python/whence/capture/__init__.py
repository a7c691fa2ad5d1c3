"""Captures a model as a trace or a torch.export program, and detects whether it is valid only for the example."""
