"""The arguments of a model's call: opened to their leaves, named, copied and closed again."""
