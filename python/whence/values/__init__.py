"""Reference values: the arguments and results of each call of each module, in a safetensors file (docs/values.md)."""
