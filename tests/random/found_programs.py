"""Programs found by random testing that once gave wrong results, shrunk; they stay as tests."""

import re
from dataclasses import dataclass

from program_text import Input, Program, Statement


@dataclass(frozen=True)
class FoundProgram:
    name: str
    routes: tuple[str, ...]
    inputs: str  # "x[b, s], y[4], k[]": k is an integer
    sizes: str  # of the axes: first the example's, then two or more others: "b=4 s=6, b=1 s=6, b=0 s=6"
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
    FoundProgram("written under an alias that a size decides", ("script",), "x[b, s]", ROWS, """
x = x * 1.0
t = x
if x.size(0) > 3:
    t = x * x
x[:, ::2] *= 0.0
t = t + 0.0
return t"""),
    FoundProgram("a sum or the other name", ("script",), "x[b, s], y[b, s], k[]", ROWS, """
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
    FoundProgram("a view of an empty tensor is written", ALL, "x[b, s]", ROWS, """
x = x * 1.0
x.unsqueeze(0).add_(1.5)
return x"""),
    FoundProgram("a flat view of an empty tensor is written", ALL, "x[b, s]", ROWS, """
x = x * 1.0
x.view(-1).neg_()
return x"""),
    FoundProgram("a diagonal of an empty axis", ("script",), "x[b, s, 4]", ROWS, """
v = x.diagonal(0, 2, 1)
return v"""),
    FoundProgram("a part of an empty axis", ("script",), "x[b, 4]", ROWS, """
v = x.split(2, 0)[0]
return v"""),
    FoundProgram("a chunk of an empty axis", ("script",), "x[b, s]", ROWS, """
v = x.chunk(2, 1)[0]
return v"""),
    FoundProgram("a chunk of what a split left", ("script",), "y[s]", "s=4, s=6, s=5, s=3, s=1", """
v = y.tensor_split(2, 0)[1]
v = v.chunk(3, 0)[1]
return v"""),
    FoundProgram("squeeze of an axis that is 1 or 0", ("script",), "x[b, s]", ROWS, """
v = x[:, :1].squeeze(1)
return v"""),
    FoundProgram("squeeze of a row of none", ("trace",), "x[b, s], y[t, s]", "b=3 s=3 t=4, b=3 s=2 t=4, b=4 s=6 t=2", """
v = y.repeat(x.shape[1] // 3, 1)
v = v[:1].squeeze(0)
return v"""),
    FoundProgram("an empty range after another", BOTH, "x[b, s], y[b, s]", "b=4 s=7, b=5 s=7, b=4 s=1, b=4 s=2", """
v = x.transpose(1, 0)
v = v[y.shape[1]:][:, x.size(1):3]
return v"""),
    FoundProgram("a range that ends before the first number", BOTH, "y[b, s]", "b=4 s=4, b=4 s=3, b=4 s=1, b=2 s=2", """
n = y.size(1) - 2
v = y.view(-1)[-2:n]
return v"""),
    FoundProgram("a written range of rows that may be none", BOTH, "x[b, 4]", "b=4, b=5, b=1, b=0", """
x = x * 1.0
v = x[:1]
v[..., :] = -0.75
return v"""),
    FoundProgram("a written stride of rows that may be none", BOTH, "x[b, 4]", "b=4, b=5, b=1, b=0", """
x = x * 1.0
x[:2:3] = 2.0
return x"""),
    FoundProgram("a written range at the end that reaches outside", BOTH, "y[b, s]", "b=4 s=3, b=4 s=2, b=5 s=5, b=4 s=1", """
y = y * 1.0
y[1, -3:] = 2.0
return y"""),
    FoundProgram("a written range of a part that is empty", ("trace",), "x[b, s, 4], y[b, s]",
                 "b=4 s=7, b=8 s=3, b=5 s=4, b=2 s=2", """
x = x * 1.0
v = x[:, :, y.shape[0] - 2:]
v = v.tensor_split(2, 1)[1]
v.diagonal().clamp_(min=-0.5)
return x"""),
    FoundProgram("rows behind the last are written", ("trace",), "x[b, s]", "b=2 s=7, b=3 s=7, b=5 s=3", """
x = x * 1.0
v = x[2:]
v.unsqueeze(0).add_(-0.75)
return v"""),
    FoundProgram("a column that is not there is written over itself", ("trace",), "x[b, s]", "b=2 s=5, b=4 s=3, b=4 s=2", """
x = x * 1.0
v = x[:, 2:3]
w = v.t().view_as(v)
v.copy_(w.clone())
return x"""),
    FoundProgram("a loop rebinds what another wrote", ("script",), "x[b, s]", "b=2 s=5, b=3 s=5, b=4 s=2, b=1 s=3", """
x = x * 1.0
v = x.transpose(1, 0)
x.select(1, 0).add_(1.5)
for i in range(int((x > 0.3).sum()) % 4):
    v = x
for i in range(v.size(1) // 3):
    x = x[:, :]
    x[:, 1::2].index_add_(0, torch.tensor([0]), x[:, 1::2][-1:].clone())
return v"""),
    FoundProgram("a range that data or a size make empty is zeroed in a loop", ("script",), "x[b, s]",
                 "b=5 s=3, b=5 s=2, b=6 s=4, b=2 s=2", """
x = x * 1.0
v = x[(x.size(-2) + 4) // 2:][:, ::3]
for i in range(int((x > 0.3).sum()) % 4):
    v.zero_()
return v"""),
    FoundProgram("rows of a column are put in a loop", ("script",), "x[b, s]", "b=3 s=4, b=3 s=3, b=4 s=5, b=5 s=6", """
x = x * 1.0
for i in range(x.shape[1] % 4):
    y = x.select(1, i)
    y.index_put_((torch.arange(2),), y[:1].clone())
return x"""),
    FoundProgram("rows and a loop's branch", ("script",), "x[b, s]", "b=4 s=4, b=4 s=0, b=0 s=4, b=1 s=4", """
x = x * 1.0
if x.size(-1) < 5:
    x.unsqueeze(0).masked_fill_(x > 0.3, 0.25)
return x"""),
    FoundProgram("an axis of one number of an archive", ("export",), "x[b, s]", "b=3 s=8, b=1 s=8, b=4 s=5", """
x = x * 1.0
x[-2:, -3::2].zero_()
return x"""),
    FoundProgram("a range whose length a guard fixes", ("export",), "x[b, s], y[s]", "b=3 s=3, b=4 s=3, b=3 s=5", """
v = torch.linspace(0.0, 1.0, x.shape[0] * y.size(0))
return v"""),
    FoundProgram("parts whose number a guard fixes", ("export",), "y[b, s]", "b=4 s=5, b=5 s=5, b=3 s=2", """
v = y.split(2, 0)[0]
return v"""),
    FoundProgram("a place that a guard fixes", ("export",), "x[b, s, 4]", "b=2 s=8, b=2 s=7, b=3 s=5", """
x = x * 1.0
x[:, x.size(1) // 2, -1] -= 0.25
return x"""),
    FoundProgram("a place from the end that a guard fixes", ("export",), "x[b, s]", "b=5 s=4, b=10 s=2, b=4 s=7", """
x = x * 1.0
x[::2, x.size(1) // 2] += 0.5
return x"""),
    FoundProgram("the greater of two sizes of an archive", ("export",), "x[b, s], y[b, s]",
                 "b=2 s=3, b=2 s=0, b=3 s=5, b=4 s=1", """
v = y.amax(0)
w = torch.zeros(max(v.size(0), 1))
return w"""),
    FoundProgram("a row of a tensor that broadcasting repeats is every row", ("script",), "x[b, s]", ROWS, """
x = torch.broadcast_tensors(x * 2.0, x[:1])[1]
x[0, :] -= 1.0
return x"""),
    FoundProgram("two axes that change places, one of them empty", BOTH, "x[b, s]", ROWS, """
return x.transpose(1, 0).reshape(x.size(1), 1, x.size(0))"""),
    FoundProgram("one part of an axis, the rest inferred, of an empty tensor", BOTH, "x[b, s]", ROWS, """
return x.unflatten(1, (1, -1)), x.unflatten(0, (-1, 1))"""),
    FoundProgram("written under another axis, of an empty tensor", BOTH, "x[b, s]", ROWS, """
x = x * 1.0
x.unsqueeze(0).add_(1.0)
x.view(-1).mul_(2.0)
return x"""),
    FoundProgram("written through a name that a loop changes", ("script",), "x[b, s], k[]", ROWS, """
v = x[0:1] * 1.0
w = v
for i in range(int(k)):
    v.add_(1.0)
    v = x[:1] * 2.0 if bool(x.sum() > 0) else w
return v, w"""),
    FoundProgram("a computed length that is 0 at every size that was tried", BOTH, "x[b, s]",
                 "b=3 s=8, b=2 s=4, b=5 s=9, b=2 s=14", """
x = x * 1.0
x.view(-1)[:x.size(1) % 5 // 4].zero_()
return x"""),
    FoundProgram("one row spread over several is put by index", BOTH, "x[b, s]", "b=4 s=6, b=5 s=3, b=7 s=4, b=2 s=9", """
x = x * 1.0
x.index_put_((torch.arange(2),), x[:1] * 2.0)
return x"""),
    FoundProgram("each row of a number of rows is written", ("script",), "x[b, s]", ROWS, """
x = x * 1.0
for r in x.unbind(0):
    r.mul_(0.5)
return x"""),
    FoundProgram("the last part is written", ("script",), "x[b, s]", ROWS, """
x = x * 1.0
v = x.split(2, 0)[-1]
v.add_(1.0)
x.chunk(3, 1)[-1].mul_(2.0)
return x, v"""),
    FoundProgram("parts are written, then joined", ("script",), "x[b, s]", ROWS, """
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
    FoundProgram("parts are written under a condition", ("script",), "x[b, s]", ROWS, """
x = x * 1.0
parts = x.split(2, 0)
y = x * 1.0
if bool(x.sum() > 0.3):
    parts[-1].add_(1.0)
    y = y + torch.cat(parts, 0)
return x, y + torch.cat(parts, 0)"""),
    FoundProgram("the first elements of a product of an archive are written", ("export",), "x[b, 4]", "b=6, b=7, b=1, b=9", """
v = x @ x.transpose(-1, -2)
v.view(-1)[:3].copy_(torch.tensor(0.5))
return v"""),
    FoundProgram("rows from the end of what an archive reshapes are written", ("export",), "x[b, 4]", "b=2, b=3, b=1, b=5", """
x = x * 1.0
v = x.reshape(x.size(0) * 4, -1)
v[-3:3, :] += 3.0
return v"""),
    FoundProgram("windows without overlap are written", BOTH, "x[b, s]", "b=4 s=6, b=5 s=3, b=1 s=2, b=7 s=8", """
x = x * 1.0
v = x.unfold(1, 2, 3)
v.mul_(2.0)
v[:, 0, 1] = 0.5
return x, v"""),
    FoundProgram("what broadcast_tensors hands out is written", BOTH, "x[b, s]", ROWS, """
x = x * 1.0
v, w = torch.broadcast_tensors(x, x[:1])
x[0:1, :] = 0.5
v.add_(1.0)
return x, v, w"""),
    FoundProgram("broadcast to a shape that no tensor has", BOTH, "x[b, s]", ROWS, """
x = x * 1.0
v, w = torch.broadcast_tensors(x[:, :1], x[:1])
x[:, :2] += 1.0
return x, v, w"""),
    FoundProgram("the shorter of two sizes", BOTH, "x[b, s, 4]", "b=5 s=6, b=6 s=6, b=5 s=1, b=2 s=9, b=8 s=3", """
v = x * 1.0
v = v[:4:2]
v[:v.size(1)].fill_(0.5)
return v"""),
    FoundProgram("written in runs that enter a loop alone", ("script",), "y[b, s]", ROWS, """
y = y * 1.0
parts = [y]
for i in range(int((y > 0.3).sum()) % 4):
    y[:, :].mul_(1.5)
    parts.append(y)
return torch.cat(parts)"""),
    FoundProgram("perhaps another name of what a list holds is written", ("script",), "x[b, 4], k[]", ROWS, """
x = x * 1.0
v = x.transpose(0, 1)
parts = [x]
for i in range(v.size(1)):
    for j in range(int(k)):
        v = v.clone()
    v.add_(1.0)
    parts.append(x)
return torch.stack(parts)"""),
    FoundProgram("the same axes again in a loop", ("script",), "x[b, s]", ROWS, """
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
    FoundProgram("a bound beyond the axis in the runs", BOTH, "x[b, s]", "b=2 s=2, b=4 s=4, b=2 s=3, b=3 s=6, b=7 s=9", """
n = x.size(0) - 1 + x.size(1) % 3
t = x * 1.0
t[:n] = 5.0
return x[:n], t"""),
    FoundProgram("broadcast at size 1 alone", BOTH, "x[b, s]", "b=4 s=6, b=1 s=6, b=1 s=5, b=3 s=2", """
v = torch.zeros(x.size(0) + 1, x.size(1))
v[:2] = x[:2]
w = torch.zeros(x.size(0) * 2, x.size(1))
w[torch.arange(2)] = x[-2:]
return v, w, x[:2].expand_as(torch.zeros(x.size(0) + 1, x.size(1))[:2])"""),
    FoundProgram("a write that broadcasts at size 1 alone", ALL, "x[b, s]", "b=4 s=6, b=1 s=6, b=1 s=5, b=3 s=3", """
v = torch.zeros(x.size(0) + 1, x.size(1))
v[:2] = x[:2]
return v"""),
    FoundProgram("a remainder by 0 at size 1", ("script",), "x[b, s]", "b=4 s=6, b=3 s=5, b=2 s=4", """
return x + float(x.size(1) % (x.size(0) - 1))"""),
    FoundProgram("a reshape of what is perhaps a view", BOTH, "x[b, s]", ROWS, """
x = x * 1.0
x = torch.einsum('...i->i...', x)
v = x.reshape_as(x)
w = v.reshape(v.size(0) * v.size(1), 1)
v.add_(0.5)
return w"""),
    FoundProgram("expanded to a number that becomes -1", BOTH, "x[b, 4]", "b=5, b=6, b=1, b=0", """
v = x.diagonal(1)
return v.unsqueeze(0).expand(v.size(-1) - 1, v.size(0))"""),
    FoundProgram("a cut of what is mostly empty", BOTH, "x[b, s], y[t, s]", "b=5 s=7 t=4, b=2 s=8 t=1, b=3 s=3 t=2", """
v = x.reshape(-1)[y.size(0):3]
return v[:1].expand(v.size(-1) * 4)"""),
    FoundProgram("a view of what a branch repeated is read", ("script",), "x[b, s], k[]", ROWS, """
x = x * 1.0
if k > 1:
    pass
else:
    x = x[:1].expand_as(x)
v = x.transpose(0, 1)
v.diagonal().fill_(1.5)
return v"""),
    FoundProgram("a part of what contiguous gives back, beside a choice", ("script",), "x[b, s, 4], y[b, s]",
                 "b=3 s=3, b=4 s=3, b=3 s=2, b=1 s=1", """
for i in range(y.size(1)):
    y = y * 2
v = x.contiguous()[:, :, 2]
x.select(2, 2).add_(1.5)
return v"""),
    FoundProgram("a loop begins with what no run has shown", ("script",), "x[b, s], y[s]", "b=4 s=6, b=5 s=6, b=8 s=3", """
if (y > 0.3).any():
    pass
else:
    x = torch.cat([x, x], 0)
for i in range(y.size(-1)):
    x = x[torch.arange(x.size(0))]
return x"""),
    FoundProgram("parts are written before their list is read", ("script",), "x[b, s], k[]", ROWS, """
x = x * 1.0
parts = x.split(int(k) + 1, 0)
x.add_(1.0)
return torch.cat(parts), parts[0]"""),
    FoundProgram("an element of a list is written that nobody reads", ("script",), "x[b, s], k[]", ROWS, """
v = x * 1.0
parts = [x * 2.0]
for i in range(int(k)):
    parts.append(v)
    v = v * 0.5
total = torch.cat(parts).sum()
parts[0].add_(1.0)
return total, v"""),
    FoundProgram("reshape of nothing, by a size", BOTH, "x[b, 4]", "b=2, b=3, b=5, b=1", """
return x[:3][:, 2:2].reshape(x.size(0), -1)"""),
    FoundProgram("fewer chunks than asked for, where the model does not run at 1 alone", ("script",), "x[b, s], y[t]",
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
    FoundProgram("axes change places around another loop", ("script",), "x[b, s, 4], y[b, s], k[]",
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
    FoundProgram("an input is given another shape in place", ("trace",), "x[b, s]", ROWS, """
x.unsqueeze_(0)
return x * 2.0"""),
    FoundProgram("the first piece of the last piece", ("script",), "x[b, s]", "b=5 s=7, b=6 s=7, b=7 s=3, b=9 s=2", """
return x.split(3, 0)[-1].split(2, 0)[0]"""),
    FoundProgram("a length that data decide is read by C++", ("native",), "x[b, s]",
                 "b=2 s=8, b=3 s=8, b=2 s=7, b=4 s=5", """
v = torch.masked_select(x, x > 0.3)
return torch.arange(v.size(-1), dtype=torch.float32)"""),
    FoundProgram("axes change places while the first is counted", ("script",), "x[b, 4]", "b=6, b=2, b=5, b=1", """
i = 0
while i < x.shape[0]:
    x = x.swapaxes(0, 1)
    i = i + 1
return x"""),
    FoundProgram("the first of what is left of an axis is squeezed", ("trace", "script"), "x[b, s]",
                 "b=5 s=3, b=4 s=4, b=3 s=5, b=1 s=3, b=2 s=4", """
return x[2:, 2][:1].squeeze(0) * 2.0"""),
    FoundProgram("the first of one of two is squeezed", ("script",), "x[b, s], y[t, s]",
                 "b=2 s=8 t=2, b=3 s=7 t=4, b=0 s=8 t=2, b=4 s=5 t=0", """
if y.size(1) % 2 == 0:
    y = x
return y[:1].squeeze(0)"""),
    FoundProgram("the first of nothing is reshaped", ("export",), "x[b, s]", "b=6 s=6, b=3 s=4, b=0 s=6, b=1 s=5", """
v = x[:1]
return v.reshape(-1, 1, v.size(1))"""),
    FoundProgram("a stride that few sizes show", ("native",), "x[b, s]", "b=2 s=7, b=5 s=4, b=4 s=3, b=8 s=6", """
v = x.reshape(x.shape[1], -1)
n = (v.shape[1] + 2) // 2
return v.reshape(n - n // 2, -1)"""),
    FoundProgram("a loop that a witness would go round for millions of times", ("script",), "x[s]",
                 "s=4, s=6, s=2, s=1", """
x = x.repeat((x.size(-1) + 3) // 2)
x = x.repeat((x.size(-1) + 3) // 2)
n = 0
for i in range(x.shape[0]):
    n = n + 2
return x * n"""),
    FoundProgram("a squeeze where an axis is at most 1", ("script",), "x[b, s]", "b=3 s=6, b=1 s=6, b=0 s=6, b=2 s=4", """
if x.size(0) > 1:
    return x
return x.squeeze(0)"""),
    FoundProgram("axes are joined and split beside an axis of nothing", ("trace", "script", "export"), "x[b, s, t]",
                 "b=3 s=4 t=5, b=2 s=6 t=3, b=4 s=2 t=0, b=0 s=4 t=2", """
v = torch.cat([x, x], 0)
return x.flatten(0, 1), v.unflatten(0, (-1, 2)), v.flatten(1, 2)"""),
    FoundProgram("an expand of one row to as many as there are less one", ("script",), "x[b, s], y[b, s]",
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
    FoundProgram("a write below a choice that is lost", ("script",), "x[b, s], k[]", ROWS, """
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
    FoundProgram("nothing is normalized", ("trace", "export"), "x[b, s, 4]", "b=3 s=7, b=2 s=5, b=4 s=3", """
v = x.view(-1)[-2:2]
return torch.nn.functional.layer_norm(v, v.shape[:])"""),
    FoundProgram("a diagonal in a loop that the short runs enter", ("script",), "x[b, 4]",
                 "b=4, b=5, b=4, b=1, b=8, b=9, b=4", """
x = x * 2.0
i = 0
while i < 4 and bool(x.sum() > -2.3):
    x.diagonal().copy_(-0.5)
    i = i + 1
return x"""),
    FoundProgram("a squeeze under a condition on another axis", ("script",), "x[b, s]",
                 "b=4 s=3, b=1 s=2, b=8 s=2, b=2 s=5", """
if x.size(-1) >= 3:
    pass
else:
    x = x.squeeze(0)[1]
return x"""),
    FoundProgram("a squeeze where two conditions hold", ("script",), "x[b, s]",
                 "b=1 s=3, b=1 s=2, b=8 s=2, b=2 s=5", """
if x.size(-1) >= 3 and x.size(0) == 1:
    x = x.squeeze(0)
return x.sum()"""),
    FoundProgram("a part of an axis is split beside a batch of nothing", ("trace", "script"), "x[b, s]",
                 "b=6 s=3, b=2 s=4, b=0 s=3, b=1 s=7", """
return x.tensor_split(2, 1)[0].unflatten(1, (-1, 2))"""),
    FoundProgram("nothing gets a length and an inferred one", ("trace", "script"), "x[b, 4]", "b=2, b=3, b=1, b=5", """
return x[x.size(-2):].chunk(3, 1)[0].reshape(x.view(-1).size(-1), -1)"""),
    FoundProgram("a witness would make a matrix of billions", ("script",), "x[s]", "s=5, s=4, s=1, s=7", """
v = torch.eye(x.shape[0] * x.shape[0])
if bool(x.sum() > 0.3):
    v = v @ v.transpose(-1, -2) * 0.125
return v"""),
    FoundProgram("one time less than there are rows", ("trace", "script", "export"), "y[b, s]",
                 "b=5 s=5, b=3 s=4, b=0 s=5, b=1 s=2, b=2 s=3", """
return y.repeat(y.size(-2) - 1, 1)"""),
    FoundProgram("an ellipsis over what may be one", ("export",), "y[t, s]", "t=2 s=3, t=1 s=1, t=4 s=2, t=3 s=1", """
v = torch.einsum("...i->i...", y.view(-1)[:2])
w = torch.einsum("...i,...i->...i", y[:2], y[:2])
return v[:-1], w[:-1], torch.einsum("i...", y[:2])[:, :-1]"""),
    FoundProgram("a diagonal of an ellipsis is written", ("export",), "x[b, s, 4]", "b=4 s=3, b=1 s=3, b=2 s=2, b=7 s=1", """
v = x[-2:]
torch.einsum("...i->i...", v).diagonal().copy_(2)
return v * 1.0"""),
    FoundProgram("a size has a least number that no trace shows", ("native",), "x[b, s], y[s]",
                 "b=6 s=5, b=12 s=2, b=3 s=4, b=2 s=7", """
y.select(0, 1).tanh_()
return torch.eye(max(y.shape[0] - 2, 1))"""),
    FoundProgram("a length that all axes at 1 change", ("native",), "y[t, s]", "t=3 s=7, t=2 s=4, t=1 s=1, t=5 s=3", """
v = y.view(-1)[:3]
return v.reshape(-1, 1, v.size(0))"""),
    FoundProgram("a window of one that the archive fixed is reshaped", ("export",), "y[s]", "s=3, s=2, s=5, s=9", """
v = y.unfold(0, 2, 2)
return (v - v + 0.5).reshape(v.size(0), -1)"""),
)
