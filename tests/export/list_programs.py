"""Generates random scripted programs that alias lists through variables, dicts, tuples, Optionals and a method, and
change them in data-dependent branches and loops."""

import random

LISTS = ["a", "b", "c"]


class Writer:
    """Generates statements; with `writes`, some write in place to tensors in the lists."""

    def __init__(self, seed, writes):
        self.random = random.Random(seed)
        self.writes = writes

    def list(self):
        return self.random.choice(LISTS)

    def row(self):
        row = f"x[{self.random.randrange(6)}]"
        return f"{row} * 2" if self.writes else row

    def statement(self):
        a, b = self.list(), self.list()
        if self.writes and self.random.random() < 0.25:
            return self.random.choice([f"{a}[0].add_({b}[-1])", f"{a}[-1].mul_(2)", f"{a} = [{b}[-1], {b}[0] + 1]"])
        return self.random.choice([
            f"{a}.append({self.row()})",
            f"{a}.append({self.row()})",
            f"{a}[0] = {a}[0] + {b}[-1]",
            f"{a} = {b}",
            f"{a} = {b}",
            f"{a} = [{self.row()}, {b}[0]]",
            f"{a} = {b} + [{self.row()}]",
            f"d['p'] = {a}",
            f"{a} = d['p']",
            f"d = {{'p': d['q'], 'q': {a}}}",
            "d['q'].append(x[0])",
            f"t = ({a}, {b})",
            f"{a}, {b} = t",
            f"{a}, {b} = {b}, {a}",
            f"t[{self.random.randrange(2)}].append({self.row()})",
            f"o = self.maybe({a}, 1)",
            f"o = self.maybe({a}, 0)",
            f"if o is not None:\n    o.append({self.row()})",
            f"if o is not None:\n    {a} = o",
            f"{a} = self.push({b}, {self.row()})",
            f"{a} = self.push_or_leave({b}, {self.row()}, {self.condition()})",
            f"o = self.maybe({a}, {self.condition()})",
        ])

    def condition(self):
        return f"int(n[{self.random.randrange(4)}])"

    def block(self, depth, size):
        lines = []
        for _ in range(self.random.randint(1, size)):
            kind = self.random.random()
            if depth == 0 or kind < 0.6:
                lines += self.statement().split("\n")
            elif kind < 0.85:
                lines.append(f"if {self.condition()} > 0:")
                lines += ["    " + line for line in self.block(depth - 1, 3)]
                if self.random.random() < 0.4:
                    lines.append("else:")
                    lines += ["    " + line for line in self.block(depth - 1, 3)]
            else:
                lines.append(f"for i{depth} in range({self.condition()}):")
                lines += ["    " + line for line in self.block(depth - 1, 3)]
                if self.random.random() < 0.2:
                    lines += [f"    if {self.condition()} > i{depth}:", "        break"]
        return lines


def program(seed, writes=False):
    """Returns the source of a class Lists; forward(x float32[6, 2], n int64[4]) returns each list stacked."""
    body = Writer(seed, writes).block(2, 7)
    forward = [
        *(["x = x * 1"] if writes else []),
        "a = [x[0]]", "b = [x[1], x[2]]", "c = a" if seed % 2 else "c = [x[3]]",
        "d = {'p': a, 'q': [x[4]]}" if seed % 3 else "d = {'p': [x[4]], 'q': [x[5]]}",
        "t = (b, c)", "o = self.maybe(a, 0)",
        *body,
        "if o is not None:", "    b = b + o",
        "return (torch.stack(a), torch.stack(b), torch.stack(c), torch.stack(d['p']), torch.stack(d['q']),",
        "        torch.stack(t[0]), torch.stack(t[1]))",
    ]
    return "\n".join([
        "from typing import List, Optional", "import torch", "from torch import Tensor",
        "class Lists(torch.nn.Module):",
        "    def push(self, rows: List[Tensor], row: Tensor):",
        "        rows.append(row)",
        "        return rows",
        "    def push_or_leave(self, rows: List[Tensor], row: Tensor, leave: int):",
        "        if leave > 1:",
        "            return rows",
        "        rows.append(row)",
        "        return rows + [row]",
        "    def maybe(self, rows: List[Tensor], present: int) -> Optional[List[Tensor]]:",
        "        if present > 0:",
        "            return rows",
        "        return None",
        "    def forward(self, x: Tensor, n: Tensor):",
        *("        " + line for line in forward),
    ]) + "\n"
