"""A module that computes one function of x, for tests with many small programs."""

import torch


class FunctionModule(torch.nn.Module):
    def __init__(self, function):
        super().__init__()
        self.function = function

    def forward(self, x):
        return self.function(x)
