"""Sensitivity to quantisation: what quantising one module of an annotated ONNX file at a time costs and saves."""
