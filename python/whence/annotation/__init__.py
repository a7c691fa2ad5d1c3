"""``annotate``, ``validate``, ``compare`` and ``carry``: origins in ONNX files."""
