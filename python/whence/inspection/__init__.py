"""``show``, ``explain``, ``diff``, ``extract``, ``profile`` and ``select``: inspect ONNX files."""
