"""``whence.record``: sidecars of what PyTorch traces and exports."""
