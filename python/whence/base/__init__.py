"""Used by every package here: optional packages, spellings, warnings of other libraries, how reports look."""
