"""Lists whose length depends on data, because a loop or branch before the operator changes them."""

from ops.case import case, f32, i64

GROWN = """def forward(self, x, n):
  rows = [x[0]]
  for t in range(int(n.max())):
    rows.append(x[t] * 2)
"""


def grown(*lines: str) -> str:
    """Collects a number of rows of x that depends on n; `lines` use them."""
    return GROWN + "".join(f"  {line}\n" for line in lines)


def counted(kind: str, *lines: str) -> str:
    """Collects a number of numbers that depends on n; `lines` use them."""
    return (f"def forward(self, x, n):\n  found: List[{kind}] = []\n  for t in range(int(n.max())):\n"
            f"    found.append({kind}(t) * 2)\n" + "".join(f"  {line}\n" for line in lines))


def changed(key: str, *lines: str):
    return case(key, grown(*lines, "return torch.stack(rows)"), f32(6, 3), i64(1, 5, 3))


CASES = [
    changed("aten::append.t", "rows.append(x[3])"),
    changed("aten::insert.t", "rows.insert(1, x[4])"),
    changed("aten::insert.t", "rows.insert(-1, x[4])"),
    changed("aten::insert.t", "rows.insert(int(n.min()), x[4])"),
    changed("aten::Delete.t", "del rows[-1]"),
    changed("aten::_set_item.t", "rows[0] = x[5]"),
    changed("aten::_set_item.t", "rows[-1] = x[5]"),
    changed("aten::_set_item.t", "rows[int(n.min()) - 1] = x[5]"),
    case("aten::__getitem__.t", grown("return rows[-1] + rows[int(n.min())]"), f32(6, 3), i64(1, 5, 3)),
    case("aten::len.t", grown("return x * len(rows)"), f32(6, 3), i64(1, 5, 3)),
    case("prim::Optional", "def forward(self, x, n) -> Optional[Tensor]:\n  return x * 2 if int(n.max()) > 2 else None\n",
         f32(6, 3), i64(1, 5, 3), recorded_as="prim::If"),
    case("prim::ListConstruct", grown("return torch.cat(rows)"), f32(6, 3), i64(1, 5, 3)),
    case("aten::cat", grown("return torch.cat(rows, -1)"), f32(6, 3), i64(1, 5, 3)),
    case("aten::stack", grown("return torch.stack(rows, -1)"), f32(6, 3), i64(1, 5, 3)),
    case("aten::stack", grown("return torch.stack(rows)"), f32(6, 3), i64(1, 5, 3), dynamic="x:1=width"),
    case("aten::hstack", grown("return torch.hstack(rows)"), f32(6, 3), i64(1, 5, 3),
         refused="a list whose length depends on data"),
    *[case(key, counted(kind, f"return x * {answer}"), f32(6, 3), i64(1, 5, 3))
      for key, kind, answer in [
          ("aten::sum.int", "int", "sum(found)"), ("aten::sum.float", "float", "sum(found)"),
          ("aten::count.int", "int", "found.count(2)"), ("aten::count.float", "float", "found.count(2.0)"),
          ("aten::__contains__.int_list", "int", "int(4 in found)"),
          ("aten::__contains__.float_list", "float", "int(4.0 in found)"),
          ("aten::tensor", "int", "torch.tensor(found).sum()"), ("aten::tensor", "float", "torch.tensor(found).sum()")]],
    case("aten::sum.int", counted("int", "found.clear()", "return x + sum(found)"), f32(6, 3), i64(1, 5, 3)),
    case("aten::sum.int", "def forward(self, x):\n  return x * sum([x.size(0), 3])", f32(4), dynamic="x:0=n"),
    case("aten::__contains__.int_list", "def forward(self, x):\n  return x * int(x.size(0) in [4, x.size(0) + 1])",
         f32(4), dynamic="x:0=n"),
    case("aten::__contains__.int_list", "def forward(self, x):\n  return x * int(4 in [x.size(0), 1])",
         f32(4), dynamic="x:0=n"),
]
