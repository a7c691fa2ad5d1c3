"""Reference values: what each call of each module was given and returned, in a safetensors file (docs/values.md)."""
