"""Model files: writes them atomically, finds files next to them, and saves in-memory models."""
