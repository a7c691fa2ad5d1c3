"""``functions``, ``inline``, ``place`` and ``share_weights``: ONNX files in another form."""
