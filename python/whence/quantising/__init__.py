"""Sensitivity to quantisation: quantises one module of an annotated ONNX file at a time, measures error and savings."""
