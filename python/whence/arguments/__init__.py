"""The arguments of a model's call: flattened to their leaves, named, copied and rebuilt."""
