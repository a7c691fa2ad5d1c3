"""Axes of the inputs that may have other sizes when the file runs."""
