"""Shrunk random programs that once gave wrong results."""

import re
from dataclasses import dataclass

from program_text import Input, Program, Statement


@dataclass(frozen=True)
class FoundProgram:
    name: str
    routes: tuple[str, ...]
    inputs: str  # "x[b, s], y[4], k[]": k is an integer
    sizes: str  # sizes of the axes, the example's first, then at least two others: "b=4 s=6, b=1 s=6, b=0 s=6"
    source: str  # the lines of forward

    def program(self) -> Program:
        *lines, last = self.source.strip("\n").split("\n")
        assert last.startswith("return "), last
        return Program(tuple(read_inputs(self.inputs)), tuple(Statement("found", line) for line in lines),
                       (last.removeprefix("return "),), tuple(read_sizes(each) for each in self.sizes.split(",")))


def read_inputs(text: str):
    for name, dims in re.findall(r"(\w+)\[([^\]]*)\]", text):
        axes = tuple(int(each) if each.isdigit() else each for each in re.findall(r"\w+", dims))
        yield Input(name, axes, "float32" if axes else "int64")


def read_sizes(text: str) -> dict[str, int]:
    return {name: int(size) for name, size in re.findall(r"(\w+)=(\d+)", text)}


BOTH = ("trace", "script")
ALL = ("trace", "script", "export")
ROWS = "b=4 s=6, b=5 s=3, b=1 s=6, b=7 s=4, b=0 s=6, b=4 s=0"

FOUND = (
    FoundProgram("a write through an alias that depends on a size", ("script",), "x[b, s]", ROWS, """
x = x * 1.0
t = x
if x.size(0) > 3:
    t = x * x
x[:, ::2] *= 0.0
t = t + 0.0
return t"""),
    FoundProgram("a write to a sum or an alias, depending on data", ("script",), "x[b, s], y[b, s], k[]", ROWS, """
t = x * 1.0
y = y * 1.0
z = y
if int(k) > 2:
    t = y + t
else:
    t = y
t.add_(2.0)
return t, z"""),
    FoundProgram("reshape of an empty axis", ALL, "x[b, s]", ROWS, """
v = x.reshape(1, x.size(0), x.size(1))
return v"""),
    FoundProgram("a write to a view of an empty tensor", ALL, "x[b, s]", ROWS, """
x = x * 1.0
x.unsqueeze(0).add_(1.5)
return x"""),
    FoundProgram("a write to a flat view of an empty tensor", ALL, "x[b, s]", ROWS, """
x = x * 1.0
x.view(-1).neg_()
return x"""),
    FoundProgram("a diagonal of an empty axis", ("script",), "x[b, s, 4]", ROWS, """
v = x.diagonal(0, 2, 1)
return v"""),
    FoundProgram("a split part of an empty axis", ("script",), "x[b, 4]", ROWS, """
v = x.split(2, 0)[0]
return v"""),
    FoundProgram("a chunk of an empty axis", ("script",), "x[b, s]", ROWS, """
v = x.chunk(2, 1)[0]
return v"""),
    FoundProgram("a chunk of a split part", ("script",), "y[s]", "s=4, s=6, s=5, s=3, s=1", """
v = y.tensor_split(2, 0)[1]
v = v.chunk(3, 0)[1]
return v"""),
    FoundProgram("squeeze of an axis of size 1 or 0", ("script",), "x[b, s]", ROWS, """
v = x[:, :1].squeeze(1)
return v"""),
    FoundProgram("squeeze of a row of an empty tensor", ("trace",), "x[b, s], y[t, s]",
                 "b=3 s=3 t=4, b=3 s=2 t=4, b=4 s=6 t=2", """
v = y.repeat(x.shape[1] // 3, 1)
v = v[:1].squeeze(0)
return v"""),
    FoundProgram("an empty range of a range", BOTH, "x[b, s], y[b, s]", "b=4 s=7, b=5 s=7, b=4 s=1, b=4 s=2", """
v = x.transpose(1, 0)
v = v[y.shape[1]:][:, x.size(1):3]
return v"""),
    FoundProgram("a range that ends before the first element", BOTH, "y[b, s]",
                 "b=4 s=4, b=4 s=3, b=4 s=1, b=2 s=2", """
n = y.size(1) - 2
v = y.view(-1)[-2:n]
return v"""),
    FoundProgram("a write to a range of rows that may be empty", BOTH, "x[b, 4]", "b=4, b=5, b=1, b=0", """
x = x * 1.0
v = x[:1]
v[..., :] = -0.75
return v"""),
    FoundProgram("a write to a strided range of rows that may be empty", BOTH, "x[b, 4]", "b=4, b=5, b=1, b=0", """
x = x * 1.0
x[:2:3] = 2.0
return x"""),
    FoundProgram("a write to a range at the end that exceeds the axis", BOTH, "y[b, s]",
                 "b=4 s=3, b=4 s=2, b=5 s=5, b=4 s=1", """
y = y * 1.0
y[1, -3:] = 2.0
return y"""),
    FoundProgram("a write to a view of an empty part", ("trace",), "x[b, s, 4], y[b, s]",
                 "b=4 s=7, b=8 s=3, b=5 s=4, b=2 s=2", """
x = x * 1.0
v = x[:, :, y.shape[0] - 2:]
v = v.tensor_split(2, 1)[1]
v.diagonal().clamp_(min=-0.5)
return x"""),
    FoundProgram("a write to rows after the last row", ("trace",), "x[b, s]", "b=2 s=7, b=3 s=7, b=5 s=3", """
x = x * 1.0
v = x[2:]
v.unsqueeze(0).add_(-0.75)
return v"""),
    FoundProgram("a write of a missing column to itself", ("trace",), "x[b, s]", "b=2 s=5, b=4 s=3, b=4 s=2", """
x = x * 1.0
v = x[:, 2:3]
w = v.t().view_as(v)
v.copy_(w.clone())
return x"""),
    FoundProgram("a loop rebinds a tensor that another loop wrote", ("script",), "x[b, s]",
                 "b=2 s=5, b=3 s=5, b=4 s=2, b=1 s=3", """
x = x * 1.0
v = x.transpose(1, 0)
x.select(1, 0).add_(1.5)
for i in range(int((x > 0.3).sum()) % 4):
    v = x
for i in range(v.size(1) // 3):
    x = x[:, :]
    x[:, 1::2].index_add_(0, torch.tensor([0]), x[:, 1::2][-1:].clone())
return v"""),
    FoundProgram("a write in a loop to a range that may be empty", ("script",), "x[b, s]",
                 "b=5 s=3, b=5 s=2, b=6 s=4, b=2 s=2", """
x = x * 1.0
v = x[(x.size(-2) + 4) // 2:][:, ::3]
for i in range(int((x > 0.3).sum()) % 4):
    v.zero_()
return v"""),
    FoundProgram("index_put_ into a column in a loop", ("script",), "x[b, s]", "b=3 s=4, b=3 s=3, b=4 s=5, b=5 s=6", """
x = x * 1.0
for i in range(x.shape[1] % 4):
    y = x.select(1, i)
    y.index_put_((torch.arange(2),), y[:1].clone())
return x"""),
    FoundProgram("a masked write to an unsqueezed view in a branch", ("script",), "x[b, s]",
                 "b=4 s=4, b=4 s=0, b=0 s=4, b=1 s=4", """
x = x * 1.0
if x.size(-1) < 5:
    x.unsqueeze(0).masked_fill_(x > 0.3, 0.25)
return x"""),
    FoundProgram("an axis of size 1 in a torch.export archive", ("export",), "x[b, s]", "b=3 s=8, b=1 s=8, b=4 s=5", """
x = x * 1.0
x[-2:, -3::2].zero_()
return x"""),
    FoundProgram("a length that a guard fixes", ("export",), "x[b, s], y[s]", "b=3 s=3, b=4 s=3, b=3 s=5", """
v = torch.linspace(0.0, 1.0, x.shape[0] * y.size(0))
return v"""),
    FoundProgram("a number of parts that a guard fixes", ("export",), "y[b, s]", "b=4 s=5, b=5 s=5, b=3 s=2", """
v = y.split(2, 0)[0]
return v"""),
    FoundProgram("an index that a guard fixes", ("export",), "x[b, s, 4]", "b=2 s=8, b=2 s=7, b=3 s=5", """
x = x * 1.0
x[:, x.size(1) // 2, -1] -= 0.25
return x"""),
    FoundProgram("an index from the end that a guard fixes", ("export",), "x[b, s]", "b=5 s=4, b=10 s=2, b=4 s=7", """
x = x * 1.0
x[::2, x.size(1) // 2] += 0.5
return x"""),
    FoundProgram("the maximum of a size and 1 in a torch.export archive", ("export",), "x[b, s], y[b, s]",
                 "b=2 s=3, b=2 s=0, b=3 s=5, b=4 s=1", """
v = y.amax(0)
w = torch.zeros(max(v.size(0), 1))
return w"""),
    FoundProgram("a write to a row of a broadcast tensor", ("script",), "x[b, s]", ROWS, """
x = torch.broadcast_tensors(x * 2.0, x[:1])[1]
x[0, :] -= 1.0
return x"""),
    FoundProgram("a transpose of two axes, one of them empty", BOTH, "x[b, s]", ROWS, """
return x.transpose(1, 0).reshape(x.size(1), 1, x.size(0))"""),
    FoundProgram("unflatten of an empty tensor with an inferred size", BOTH, "x[b, s]", ROWS, """
return x.unflatten(1, (1, -1)), x.unflatten(0, (-1, 1))"""),
    FoundProgram("writes to two views of an empty tensor", BOTH, "x[b, s]", ROWS, """
x = x * 1.0
x.unsqueeze(0).add_(1.0)
x.view(-1).mul_(2.0)
return x"""),
    FoundProgram("a write through a name that a loop rebinds", ("script",), "x[b, s], k[]", ROWS, """
v = x[0:1] * 1.0
w = v
for i in range(int(k)):
    v.add_(1.0)
    v = x[:1] * 2.0 if bool(x.sum() > 0) else w
return v, w"""),
    FoundProgram("a computed length that is 0 at every recorded size", BOTH, "x[b, s]",
                 "b=3 s=8, b=2 s=4, b=5 s=9, b=2 s=14", """
x = x * 1.0
x.view(-1)[:x.size(1) % 5 // 4].zero_()
return x"""),
    FoundProgram("index_put_ of one row to several rows", BOTH, "x[b, s]", "b=4 s=6, b=5 s=3, b=7 s=4, b=2 s=9", """
x = x * 1.0
x.index_put_((torch.arange(2),), x[:1] * 2.0)
return x"""),
    FoundProgram("a write to each row in a loop over unbind", ("script",), "x[b, s]", ROWS, """
x = x * 1.0
for r in x.unbind(0):
    r.mul_(0.5)
return x"""),
    FoundProgram("a write to the last part of a split", ("script",), "x[b, s]", ROWS, """
x = x * 1.0
v = x.split(2, 0)[-1]
v.add_(1.0)
x.chunk(3, 1)[-1].mul_(2.0)
return x, v"""),
    FoundProgram("parts are written and then joined", ("script",), "x[b, s]", ROWS, """
x = x * 1.0
parts = x.split(2, 0)
y = torch.cat(parts, 0)
for i, part in enumerate(parts):
    part.add_(float(i))
return x, y, torch.cat(parts, 0), len(parts)"""),
    FoundProgram("parts are written and joined in a loop", ("script",), "x[b, s]", ROWS, """
x = x * 1.0
parts = x.split(2, 0)
y = x * 1.0
for i in range(x.size(1)):
    parts[0].add_(1.0)
    y = y + torch.cat(parts, 0)
return x, y"""),
    FoundProgram("parts are joined and written in a loop", ("script",), "x[b, s]", ROWS, """
x = x * 1.0
parts = x.split(2, 0)
y = x * 1.0
for i in range(x.size(1)):
    y = y + torch.cat(parts, 0)
    parts[0].add_(1.0)
return x, y"""),
    FoundProgram("a write to parts under a condition", ("script",), "x[b, s]", ROWS, """
x = x * 1.0
parts = x.split(2, 0)
y = x * 1.0
if bool(x.sum() > 0.3):
    parts[-1].add_(1.0)
    y = y + torch.cat(parts, 0)
return x, y + torch.cat(parts, 0)"""),
    FoundProgram("a write to the first elements of a matrix product", ("export",), "x[b, 4]", "b=6, b=7, b=1, b=9", """
v = x @ x.transpose(-1, -2)
v.view(-1)[:3].copy_(torch.tensor(0.5))
return v"""),
    FoundProgram("a write to a range of a reshaped tensor", ("export",), "x[b, 4]", "b=2, b=3, b=1, b=5", """
x = x * 1.0
v = x.reshape(x.size(0) * 4, -1)
v[-3:3, :] += 3.0
return v"""),
    FoundProgram("a write to windows without overlap", BOTH, "x[b, s]", "b=4 s=6, b=5 s=3, b=1 s=2, b=7 s=8", """
x = x * 1.0
v = x.unfold(1, 2, 3)
v.mul_(2.0)
v[:, 0, 1] = 0.5
return x, v"""),
    FoundProgram("a write to a result of broadcast_tensors", BOTH, "x[b, s]", ROWS, """
x = x * 1.0
v, w = torch.broadcast_tensors(x, x[:1])
x[0:1, :] = 0.5
v.add_(1.0)
return x, v, w"""),
    FoundProgram("broadcast_tensors to a shape that no input has", BOTH, "x[b, s]", ROWS, """
x = x * 1.0
v, w = torch.broadcast_tensors(x[:, :1], x[:1])
x[:, :2] += 1.0
return x, v, w"""),
    FoundProgram("the smaller of two sizes", BOTH, "x[b, s, 4]", "b=5 s=6, b=6 s=6, b=5 s=1, b=2 s=9, b=8 s=3", """
v = x * 1.0
v = v[:4:2]
v[:v.size(1)].fill_(0.5)
return v"""),
    FoundProgram("a write in a loop that only some runs enter", ("script",), "y[b, s]", ROWS, """
y = y * 1.0
parts = [y]
for i in range(int((y > 0.3).sum()) % 4):
    y[:, :].mul_(1.5)
    parts.append(y)
return torch.cat(parts)"""),
    FoundProgram("a write to a tensor that may alias a list item", ("script",), "x[b, 4], k[]", ROWS, """
x = x * 1.0
v = x.transpose(0, 1)
parts = [x]
for i in range(v.size(1)):
    for j in range(int(k)):
        v = v.clone()
    v.add_(1.0)
    parts.append(x)
return torch.stack(parts)"""),
    FoundProgram("moveaxis without effect in a loop", ("script",), "x[b, s]", ROWS, """
x = x * 1.0
v = x
for i in range(x.size(0)):
    x = x.moveaxis(0, 0)
v.add_(3.0)
return x"""),
    FoundProgram("as_strided of some elements", ALL, "x[b, s]", "b=5 s=6, b=6 s=3, b=3 s=4, b=2 s=2", """
v = x.reshape(-1)
n = (v.size(0) + 1) // 2
return torch.as_strided(v, (n,), (1,)), torch.as_strided(v, (x.size(0), x.size(1)), (x.size(1), 1))"""),
    FoundProgram("a bound that exceeds the axis in some runs", BOTH, "x[b, s]",
                 "b=2 s=2, b=4 s=4, b=2 s=3, b=3 s=6, b=7 s=9", """
n = x.size(0) - 1 + x.size(1) % 3
t = x * 1.0
t[:n] = 5.0
return x[:n], t"""),
    FoundProgram("a broadcast only at size 1", BOTH, "x[b, s]", "b=4 s=6, b=1 s=6, b=1 s=5, b=3 s=2", """
v = torch.zeros(x.size(0) + 1, x.size(1))
v[:2] = x[:2]
w = torch.zeros(x.size(0) * 2, x.size(1))
w[torch.arange(2)] = x[-2:]
return v, w, x[:2].expand_as(torch.zeros(x.size(0) + 1, x.size(1))[:2])"""),
    FoundProgram("a write that broadcasts only at size 1", ALL, "x[b, s]", "b=4 s=6, b=1 s=6, b=1 s=5, b=3 s=3", """
v = torch.zeros(x.size(0) + 1, x.size(1))
v[:2] = x[:2]
return v"""),
    FoundProgram("a remainder by 0 at size 1", ("script",), "x[b, s]", "b=4 s=6, b=3 s=5, b=2 s=4", """
return x + float(x.size(1) % (x.size(0) - 1))"""),
    FoundProgram("a reshape that may be a view", BOTH, "x[b, s]", ROWS, """
x = x * 1.0
x = torch.einsum('...i->i...', x)
v = x.reshape_as(x)
w = v.reshape(v.size(0) * v.size(1), 1)
v.add_(0.5)
return w"""),
    FoundProgram("expand to a computed size that becomes -1", BOTH, "x[b, 4]", "b=5, b=6, b=1, b=0", """
v = x.diagonal(1)
return v.unsqueeze(0).expand(v.size(-1) - 1, v.size(0))"""),
    FoundProgram("a slice of a range that is usually empty", BOTH, "x[b, s], y[t, s]",
                 "b=5 s=7 t=4, b=2 s=8 t=1, b=3 s=3 t=2", """
v = x.reshape(-1)[y.size(0):3]
return v[:1].expand(v.size(-1) * 4)"""),
    FoundProgram("a write to a view of a tensor that a branch expands", ("script",), "x[b, s], k[]", ROWS, """
x = x * 1.0
if k > 1:
    pass
else:
    x = x[:1].expand_as(x)
v = x.transpose(0, 1)
v.diagonal().fill_(1.5)
return v"""),
    FoundProgram("a write to a tensor after contiguous", ("script",), "x[b, s, 4], y[b, s]",
                 "b=3 s=3, b=4 s=3, b=3 s=2, b=1 s=1", """
for i in range(y.size(1)):
    y = y * 2
v = x.contiguous()[:, :, 2]
x.select(2, 2).add_(1.5)
return v"""),
    FoundProgram("a loop may start at a size that no run has", ("script",), "x[b, s], y[s]",
                 "b=4 s=6, b=5 s=6, b=8 s=3", """
if (y > 0.3).any():
    pass
else:
    x = torch.cat([x, x], 0)
for i in range(y.size(-1)):
    x = x[torch.arange(x.size(0))]
return x"""),
    FoundProgram("a write to a tensor before the list of its parts is read", ("script",), "x[b, s], k[]", ROWS, """
x = x * 1.0
parts = x.split(int(k) + 1, 0)
x.add_(1.0)
return torch.cat(parts), parts[0]"""),
    FoundProgram("a write to a list item that is not read again", ("script",), "x[b, s], k[]", ROWS, """
v = x * 1.0
parts = [x * 2.0]
for i in range(int(k)):
    parts.append(v)
    v = v * 0.5
total = torch.cat(parts).sum()
parts[0].add_(1.0)
return total, v"""),
    FoundProgram("reshape of an empty tensor by a size", BOTH, "x[b, 4]", "b=2, b=3, b=5, b=1", """
return x[:3][:, 2:2].reshape(x.size(0), -1)"""),
    FoundProgram("fewer chunks than requested", ("script",), "x[b, s], y[t]",
                 "b=4 s=6 t=5, b=1 s=6 t=5, b=1 s=5 t=3, b=3 s=1 t=2, b=0 s=3 t=4", """
w = torch.nn.functional.max_pool1d(y.reshape(1, 1, -1), 2)
v = x.chunk(2, 0)[-1]
x = x * 1.0
x.chunk(3, 1)[-1].add_(0.5)
return w, v, x"""),
    FoundProgram("chunks of twice a size", ("script",), "x[b, s]", ROWS, """
v = torch.cat([x, x], 1).chunk(2, 1)
return v[0], v[-1]"""),
    FoundProgram("a transposed copy in a branch", ("script",), "x[b, s], k[]", ROWS, """
if int(k) > 1:
    x = x * 1.0
    v = x[0]
    x.t_()
    v.add_(1.0)
return x.sum()"""),
    FoundProgram("swapaxes in a loop around another loop", ("script",), "x[b, s, 4], y[b, s], k[]",
                 "b=5 s=4, b=4 s=5, b=3 s=7, b=1 s=2", """
for i in range(int(k)):
    x = x.swapaxes(1, 0)
    j = 0
    while j < 4 and y.sum() > 1.3:
        x = x[torch.arange(x.size(0))]
        j = j + 1
return x"""),
    FoundProgram("an axis that is empty in every run", ("script",), "x[c, b], y[a, b]",
                 "a=3 b=4 c=2, a=2 b=6 c=2, a=1 b=8 c=5, a=2 b=5 c=3", """
for i in range(y.size(0) - 1 + y.size(1) % 3):
    x = x.flatten()[:x.size(0) // 2 * 2].view(-1, 2)
return x.reshape(-1)"""),
    FoundProgram("unsqueeze_ of an input", ("trace",), "x[b, s]", ROWS, """
x.unsqueeze_(0)
return x * 2.0"""),
    FoundProgram("the first piece of the last piece", ("script",), "x[b, s]", "b=5 s=7, b=6 s=7, b=7 s=3, b=9 s=2", """
return x.split(3, 0)[-1].split(2, 0)[0]"""),
    FoundProgram("a data-dependent length in C++", ("native",), "x[b, s]",
                 "b=2 s=8, b=3 s=8, b=2 s=7, b=4 s=5", """
v = torch.masked_select(x, x > 0.3)
return torch.arange(v.size(-1), dtype=torch.float32)"""),
    FoundProgram("swapaxes in a loop over the first axis", ("script",), "x[b, 4]", "b=6, b=2, b=5, b=1", """
i = 0
while i < x.shape[0]:
    x = x.swapaxes(0, 1)
    i = i + 1
return x"""),
    FoundProgram("squeeze of the first element of a range", ("trace", "script"), "x[b, s]",
                 "b=5 s=3, b=4 s=4, b=3 s=5, b=1 s=3, b=2 s=4", """
return x[2:, 2][:1].squeeze(0) * 2.0"""),
    FoundProgram("squeeze of the first row of one of two tensors", ("script",), "x[b, s], y[t, s]",
                 "b=2 s=8 t=2, b=3 s=7 t=4, b=0 s=8 t=2, b=4 s=5 t=0", """
if y.size(1) % 2 == 0:
    y = x
return y[:1].squeeze(0)"""),
    FoundProgram("reshape of the first row of an empty tensor", ("export",), "x[b, s]",
                 "b=6 s=6, b=3 s=4, b=0 s=6, b=1 s=5", """
v = x[:1]
return v.reshape(-1, 1, v.size(1))"""),
    FoundProgram("a stride that only some sizes reveal", ("native",), "x[b, s]",
                 "b=2 s=7, b=5 s=4, b=4 s=3, b=8 s=6", """
v = x.reshape(x.shape[1], -1)
n = (v.shape[1] + 2) // 2
return v.reshape(n - n // 2, -1)"""),
    FoundProgram("a loop that could run millions of times in a trial run", ("script",), "x[s]",
                 "s=4, s=6, s=2, s=1", """
x = x.repeat((x.size(-1) + 3) // 2)
x = x.repeat((x.size(-1) + 3) // 2)
n = 0
for i in range(x.shape[0]):
    n = n + 2
return x * n"""),
    FoundProgram("squeeze of an axis of at most 1", ("script",), "x[b, s]", "b=3 s=6, b=1 s=6, b=0 s=6, b=2 s=4", """
if x.size(0) > 1:
    return x
return x.squeeze(0)"""),
    FoundProgram("flatten and unflatten next to an empty axis", ("trace", "script", "export"), "x[b, s, t]",
                 "b=3 s=4 t=5, b=2 s=6 t=3, b=4 s=2 t=0, b=0 s=4 t=2", """
v = torch.cat([x, x], 0)
return x.flatten(0, 1), v.unflatten(0, (-1, 2)), v.flatten(1, 2)"""),
    FoundProgram("expand of one row to a size minus one", ("script",), "x[b, s], y[b, s]",
                 "b=2 s=8, b=3 s=8, b=2 s=5, b=5 s=9", """
v = torch.eye(x.shape[1])
if x.size(-1) >= 8:
    x = v[:1].expand(y.shape[0] - 1, -1)
return x"""),
    FoundProgram("parts of overlapping windows", ("trace", "script"), "y[b, s]", "b=6 s=8, b=4 s=5, b=7 s=2", """
v = y.unfold(0, 2, 1)
v, w = v.tensor_split(2, 0)
v.fill_(-0.75)
return w"""),
    FoundProgram("a write to a view in nested loops with a break", ("script",), "x[b, s], k[]", ROWS, """
v = x.permute(1, 0)
l: List[torch.Tensor] = [x]
for i in range(3):
    for j in range(x.size(1) // 2):
        v[-3:j + 1, i] = -1.0
        v = v.clamp(-1.0, 1.0)
    v.fill_(-1.0)
    l.append(x)
    if bool(v.mean() < 0.1):
        break
return x, v, torch.stack(l)"""),
    FoundProgram("layer_norm of an empty tensor", ("trace", "export"), "x[b, s, 4]", "b=3 s=7, b=2 s=5, b=4 s=3", """
v = x.view(-1)[-2:2]
return torch.nn.functional.layer_norm(v, v.shape[:])"""),
    FoundProgram("a write to a diagonal in a loop that some runs enter", ("script",), "x[b, 4]",
                 "b=4, b=5, b=4, b=1, b=8, b=9, b=4", """
x = x * 2.0
i = 0
while i < 4 and bool(x.sum() > -2.3):
    x.diagonal().copy_(-0.5)
    i = i + 1
return x"""),
    FoundProgram("squeeze under a condition on another axis", ("script",), "x[b, s]",
                 "b=4 s=3, b=1 s=2, b=8 s=2, b=2 s=5", """
if x.size(-1) >= 3:
    pass
else:
    x = x.squeeze(0)[1]
return x"""),
    FoundProgram("squeeze under two conditions", ("script",), "x[b, s]",
                 "b=1 s=3, b=1 s=2, b=8 s=2, b=2 s=5", """
if x.size(-1) >= 3 and x.size(0) == 1:
    x = x.squeeze(0)
return x.sum()"""),
    FoundProgram("unflatten of a part next to an empty batch", ("trace", "script"), "x[b, s]",
                 "b=6 s=3, b=2 s=4, b=0 s=3, b=1 s=7", """
return x.tensor_split(2, 1)[0].unflatten(1, (-1, 2))"""),
    FoundProgram("reshape of an empty tensor with an inferred size", ("trace", "script"), "x[b, 4]",
                 "b=2, b=3, b=1, b=5", """
return x[x.size(-2):].chunk(3, 1)[0].reshape(x.view(-1).size(-1), -1)"""),
    FoundProgram("a matrix that could have billions of elements in a trial run", ("script",), "x[s]",
                 "s=5, s=4, s=1, s=7", """
v = torch.eye(x.shape[0] * x.shape[0])
if bool(x.sum() > 0.3):
    v = v @ v.transpose(-1, -2) * 0.125
return v"""),
    FoundProgram("repeat by the number of rows minus one", ("trace", "script", "export"), "y[b, s]",
                 "b=5 s=5, b=3 s=4, b=0 s=5, b=1 s=2, b=2 s=3", """
return y.repeat(y.size(-2) - 1, 1)"""),
    FoundProgram("einsum with an ellipsis over a size that may be 1", ("export",), "y[t, s]",
                 "t=2 s=3, t=1 s=1, t=4 s=2, t=3 s=1", """
v = torch.einsum("...i->i...", y.view(-1)[:2])
w = torch.einsum("...i,...i->...i", y[:2], y[:2])
return v[:-1], w[:-1], torch.einsum("i...", y[:2])[:, :-1]"""),
    FoundProgram("a write to a diagonal of an einsum with an ellipsis", ("export",), "x[b, s, 4]",
                 "b=4 s=3, b=1 s=3, b=2 s=2, b=7 s=1", """
v = x[-2:]
torch.einsum("...i->i...", v).diagonal().copy_(2)
return v * 1.0"""),
    FoundProgram("a minimum of a size that no trace reveals", ("native",), "x[b, s], y[s]",
                 "b=6 s=5, b=12 s=2, b=3 s=4, b=2 s=7", """
y.select(0, 1).tanh_()
return torch.eye(max(y.shape[0] - 2, 1))"""),
    FoundProgram("a length that differs if all axes are 1", ("native",), "y[t, s]",
                 "t=3 s=7, t=2 s=4, t=1 s=1, t=5 s=3", """
v = y.view(-1)[:3]
return v.reshape(-1, 1, v.size(0))"""),
    FoundProgram("reshape of a single window of a torch.export archive", ("export",), "y[s]", "s=3, s=2, s=5, s=9", """
v = y.unfold(0, 2, 2)
return (v - v + 0.5).reshape(v.size(0), -1)"""),
)
