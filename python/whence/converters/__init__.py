"""The user's own converters: functions for operators, symbolic functions, autograd functions."""
