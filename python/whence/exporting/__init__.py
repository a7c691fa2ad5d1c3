"""``whence.export``: from a model to an annotated file, by any backend."""
