"""Accuracy by module: which module of an annotated ONNX file is the first whose values differ from those recorded."""
