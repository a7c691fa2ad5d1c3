"""An extension of Model Explorer: ``model-explorer --extensions=whence.model_explorer model.onnx``."""
