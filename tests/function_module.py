"""A module that is one function of x, for tests that write many small programs."""

import torch


class FunctionModule(torch.nn.Module):
    def __init__(self, function):
        super().__init__()
        self.function = function

    def forward(self, x):
        return self.function(x)
