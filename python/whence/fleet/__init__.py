"""``whence fleet``: a registry of models annotated, validated and reported, in parallel, and continued where it ended."""
