"""``annotate``, ``validate``, ``compare`` and ``carry``: write and check origins in ONNX files."""
