"""Runs the ``whence`` command with the recorder that fits this PyTorch."""
