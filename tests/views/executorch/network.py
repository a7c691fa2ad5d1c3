"""The network whose runs are in this folder."""

import torch


class Block(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.fc, self.act, self.norm = torch.nn.Linear(64, 64), torch.nn.GELU(), torch.nn.LayerNorm(64)

    def forward(self, x):
        return self.norm(x + self.act(self.fc(x)))


class Net(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.layers, self.head = torch.nn.ModuleList([Block(), Block()]), torch.nn.Linear(64, 10)

    def forward(self, x):
        for layer in self.layers:
            x = layer(x)
        return self.head(x)
