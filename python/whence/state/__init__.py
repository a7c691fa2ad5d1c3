"""Saves the state of a model and of the process before an export, and restores it afterwards."""
