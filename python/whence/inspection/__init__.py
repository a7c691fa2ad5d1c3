"""``show``, ``explain``, ``diff``, ``extract``, ``profile`` and ``select``: answers about one file."""
