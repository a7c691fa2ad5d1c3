"""Keeps the state of a model and of the process while an export runs, and restores it afterwards."""
