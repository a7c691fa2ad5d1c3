"""Runs the ``whence`` command with the recorder that matches this PyTorch."""
