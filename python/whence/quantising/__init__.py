"""Sensitivity to quantisation: error and savings of quantising one module of an annotated ONNX file at a time."""
