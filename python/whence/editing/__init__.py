"""``functions``, ``inline``, ``place`` and ``share_weights``: rewrite ONNX files."""
