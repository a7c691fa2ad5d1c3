"""Reference values: the arguments and results of all module calls, in a safetensors file (docs/values.md)."""
