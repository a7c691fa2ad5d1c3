"""Model files: writes them atomically, finds files beside them, and writes models in memory to files."""
