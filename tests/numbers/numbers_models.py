"""The model of this folder's tests: an encoder with two attention layers, a convolution, and a module that is called
twice. Also records the results of any model's modules with PyTorch hooks."""

import torch
from torch import nn


class Attention(nn.Module):
    def __init__(self, size: int, heads: int) -> None:
        super().__init__()
        self.heads = heads
        self.query, self.key, self.value = (nn.Linear(size, size) for _ in range(3))
        self.out = nn.Linear(size, size)

    def forward(self, x):
        batch, length, size = x.shape
        query, key, value = (linear(x).view(batch, length, self.heads, -1).transpose(1, 2)
                             for linear in (self.query, self.key, self.value))
        weights = torch.softmax(query @ key.transpose(2, 3) / (size // self.heads) ** 0.5, -1)
        return self.out((weights @ value).transpose(1, 2).reshape(batch, length, size))


class Layer(nn.Module):
    def __init__(self, size: int) -> None:
        super().__init__()
        self.attention, self.first_norm = Attention(size, 4), nn.LayerNorm(size)
        self.up, self.act, self.down = nn.Linear(size, 2 * size), nn.GELU(), nn.Linear(2 * size, size)
        self.second_norm = nn.LayerNorm(size)

    def forward(self, x):
        x = self.first_norm(x + self.attention(x))
        return self.second_norm(x + self.down(self.act(self.up(x))))


class Encoder(nn.Module):
    """ids [batch, seq] -> scores [batch, seq, 5] and the most likely class [batch, seq]."""

    def __init__(self, size: int = 32) -> None:
        super().__init__()
        torch.manual_seed(0)
        self.embedding = nn.Embedding(50, size)
        self.local = nn.Conv1d(size, size, 3, padding=1)
        self.layers = nn.ModuleList(Layer(size) for _ in range(2))
        self.scale = nn.Linear(size, size)  # called twice
        self.head = nn.Linear(size, 5)
        for parameter in self.parameters():
            parameter.data += 0.1 * torch.randn_like(parameter)
        self.eval()

    def forward(self, ids):
        x = self.embedding(ids)
        x = x + self.local(x.transpose(1, 2)).transpose(1, 2)
        for layer in self.layers:
            x = layer(x)
        x = torch.tanh(self.scale(torch.tanh(self.scale(x))))
        scores = self.head(x)
        return scores, scores.argmax(-1)


def example(batch: int = 3, length: int = 24):
    return (torch.randint(0, 50, (batch, length), generator=torch.Generator().manual_seed(batch + length)),)


def save_archive(folder, kind: str):
    """Saves the encoder as a trace ("pt") or a torch.export program ("pt2"), and returns the path."""
    path = folder / f"m.{kind}"
    if kind == "pt":
        torch.jit.trace(Encoder(), example(), check_trace=False).save(path)
    else:
        torch.export.save(torch.export.export(Encoder(), example()), path)
    return path


def results_of_hooks(model, args) -> dict:
    """Returns the results of each module call by path and call number."""
    results, counts = {}, {}

    def record_results(path):
        def hook(module, inputs, result):
            counts[path] = counts.get(path, -1) + 1
            results[path, counts[path]] = result if isinstance(result, tuple) else (result,)
        return hook

    handles = [module.register_forward_hook(record_results(path)) for path, module in model.named_modules()]
    with torch.no_grad():
        model(*args)
    for handle in handles:
        handle.remove()
    return results
