"""``whence.record``: writes sidecars of the models that PyTorch traces and exports."""
