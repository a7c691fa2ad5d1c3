"""The recorder in this process, and ``whence recorder build``."""
