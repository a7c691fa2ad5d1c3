"""Converters of the user's: functions for operators, symbolic functions, autograd functions."""
