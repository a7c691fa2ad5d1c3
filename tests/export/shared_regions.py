"""Models whose modules share a region (torch.compiler.nested_compile_region), for test_shared_regions.py.

torch.export stores the region once, with the modules of its first call, and a call of it for every other module."""

import torch

region = torch.compiler.nested_compile_region
LINEAR = torch.nn.Linear


class Block(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.norm = torch.nn.LayerNorm(8)
        self.fc = LINEAR(8, 8)

    @region
    def forward(self, x):
        return x + torch.relu(self.fc(self.norm(x)))


class Activated(torch.nn.Module):
    """Its activation has no parameters."""

    def __init__(self):
        super().__init__()
        self.fc = LINEAR(8, 8)
        self.act = torch.nn.GELU()

    @region
    def forward(self, x):
        return self.act(self.fc(x))


class Pair(torch.nn.Module):
    """Two calls of a region in a region."""

    def __init__(self):
        super().__init__()
        self.first = Activated()
        self.second = Activated()

    @region
    def forward(self, x):
        return x + self.second(self.first(x)) * 2


class TwoResults(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.fc = LINEAR(8, 8)

    @region
    def forward(self, x, y):
        hidden = self.fc(x)
        return hidden + y, torch.sigmoid(hidden)


class Scaled(torch.nn.Module):
    """Reads running statistics and a buffer of its own."""

    def __init__(self):
        super().__init__()
        self.fc = LINEAR(8, 8, bias=False)
        self.bn = torch.nn.BatchNorm1d(8)
        self.register_buffer("scale", torch.rand(8) + 0.5)
        self.bn.running_mean.uniform_(-1, 1)
        self.bn.running_var.uniform_(0.5, 2)

    @region
    def forward(self, x):
        return self.bn(self.fc(x)).tanh() * self.scale


class Masked(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.fc = LINEAR(8, 8)

    @region
    def forward(self, x, *, scale, mask=None):
        y = self.fc(x) * scale
        return y if mask is None else y * mask


class Branching(torch.nn.Module):
    """A branch in a region."""

    def __init__(self):
        super().__init__()
        self.fc = LINEAR(8, 8)
        self.gate = LINEAR(8, 8)

    @region
    def forward(self, x):
        return torch.cond(x.sum() > 0, lambda y: self.fc(y), lambda y: torch.tanh(self.gate(y)), (x,))


class Sized(torch.nn.Module):
    """Uses the length of its input as a number."""

    def __init__(self):
        super().__init__()
        self.fc = LINEAR(8, 8)

    @region
    def forward(self, x):
        return torch.cat([self.fc(x), x], 0)[: x.shape[0]].reshape(x.shape[0], 2, 4).flatten(1) * x.shape[0]


class WithoutGradients(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.fc = LINEAR(8, 8)

    @region
    def forward(self, x):
        with torch.no_grad():
            y = torch.relu(self.fc(x))
        return y + x


class Chain(torch.nn.Module):
    """Calls one layer after the other."""

    def __init__(self, *layers):
        super().__init__()
        self.layers = torch.nn.ModuleList(layers)

    def forward(self, x):
        for layer in self.layers:
            x = layer(x)
        return x


class Results(Chain):
    def forward(self, x, y):
        for layer in self.layers:
            x, y = layer(x, y)
        return x, y


class Keywords(Chain):
    def forward(self, x, mask):
        for layer in self.layers:
            x = layer(x, scale=0.5, mask=mask)
        return x


class Repeated(torch.nn.Module):
    """Calls one block three times, and another one between."""

    def __init__(self):
        super().__init__()
        self.block = Block()
        self.other = Block()

    def forward(self, x):
        return self.block(self.other(self.block(self.block(x))))


class InBranches(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.a = Block()
        self.b = Block()
        self.c = Block()

    def forward(self, x):
        return torch.cond(x.sum() > 0, lambda y: self.b(self.a(y)), lambda y: self.c(y) - 1, (x,))


@region
def apply(x, layer, activation):
    return activation(layer(x)) * 3


class Function(torch.nn.Module):
    """A region that is a function: all its calls are in one module."""

    def __init__(self):
        super().__init__()
        self.a = LINEAR(8, 8)
        self.b = LINEAR(8, 8)
        self.acts = torch.nn.ModuleList([torch.nn.ReLU(), torch.nn.ReLU()])

    def forward(self, x):
        return apply(apply(x, self.a, self.acts[0]), self.b, self.acts[1])


@region
def contrast(x):
    return torch.tanh(x) * x.sum(-1, keepdim=True)


class Contrast(torch.nn.Module):
    """Calls a region without parameters twice."""

    def forward(self, x):
        return contrast(contrast(x) + 1)


def tied() -> Chain:
    model = Chain(Block(), Block(), Block())
    model.layers[2].fc.weight = model.layers[1].fc.weight
    return model


# By name: the model, and the names of its inputs.
MODELS = {
    "layers": (lambda: Chain(Block(), Block(), Block(), LINEAR(8, 3)), ("x",)),
    "nested": (lambda: Chain(Pair(), Pair(), Pair()), ("x",)),
    "results": (lambda: Results(TwoResults(), TwoResults(), TwoResults()), ("x", "y")),
    "buffers": (lambda: Chain(Scaled(), Scaled()), ("x",)),
    "repeated": (Repeated, ("x",)),
    "tied": (tied, ("x",)),
    "in_branches": (InBranches, ("x",)),
    "branches_inside": (lambda: Chain(Branching(), Branching()), ("x",)),
    "two_regions": (lambda: Chain(Block(), Activated(), Block(), Activated()), ("x",)),
    "keywords": (lambda: Keywords(Masked(), Masked()), ("x", "mask")),
    "function": (Function, ("x",)),
    "without_parameters": (lambda: Chain(Contrast(), Contrast()), ("x",)),
    "without_gradients": (lambda: Chain(WithoutGradients(), WithoutGradients()), ("x",)),
    "sized": (lambda: Chain(Sized(), Sized(), Sized()), ("x",)),
}


def model_of(name: str) -> torch.nn.Module:
    torch.manual_seed(0)
    model = MODELS[name][0]().eval().requires_grad_(False)
    for parameter in model.parameters():  # otherwise, the norms of all blocks are equal
        parameter.copy_(torch.randn_like(parameter) / 2)
    return model


def inputs_of(name: str, length: int, seed: int) -> dict[str, torch.Tensor]:
    generator = torch.Generator().manual_seed(seed)
    return {key: torch.randn(length, 8, generator=generator) for key in MODELS[name][1]}
