"""The bugs, one file per tool. A file imports its tool only inside functions, because every environment reads all files."""
