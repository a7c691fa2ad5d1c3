"""Captures a model as a trace or a program of torch.export, and detects losses."""
