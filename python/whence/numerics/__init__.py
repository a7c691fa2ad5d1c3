"""Accuracy by module: finds the first module of an annotated ONNX file whose values differ from recorded ones."""
