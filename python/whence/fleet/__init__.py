"""``whence fleet``: annotates, validates and reports the models of a registry in parallel; a later run continues it."""
