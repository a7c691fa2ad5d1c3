"""Lists whose length depends on data, because a loop or branch before the operator changes them."""

from ops.case import case, f32, i64

ROWS = """def forward(self, x, n):
  rows = [x[0]]
  for t in range(int(n.max())):
    rows.append(x[t] * 2)
"""


def with_rows(*lines: str) -> str:
    """Returns a script that collects rows of x, as many as n determines; `lines` use `rows`."""
    return ROWS + "".join(f"  {line}\n" for line in lines)


def with_numbers(kind: str, *lines: str) -> str:
    """Returns a script that collects numbers, as many as n determines; `lines` use `found`."""
    return (f"def forward(self, x, n):\n  found: List[{kind}] = []\n  for t in range(int(n.max())):\n"
            f"    found.append({kind}(t) * 2)\n" + "".join(f"  {line}\n" for line in lines))


def stacked_rows(key: str, *lines: str):
    return case(key, with_rows(*lines, "return torch.stack(rows)"), f32(6, 3), i64(1, 5, 3))


CASES = [
    stacked_rows("aten::append.t", "rows.append(x[3])"),
    stacked_rows("aten::insert.t", "rows.insert(1, x[4])"),
    stacked_rows("aten::insert.t", "rows.insert(-1, x[4])"),
    stacked_rows("aten::insert.t", "rows.insert(int(n.min()), x[4])"),
    stacked_rows("aten::Delete.t", "del rows[-1]"),
    stacked_rows("aten::_set_item.t", "rows[0] = x[5]"),
    stacked_rows("aten::_set_item.t", "rows[-1] = x[5]"),
    stacked_rows("aten::_set_item.t", "rows[int(n.min()) - 1] = x[5]"),
    case("aten::__getitem__.t", with_rows("return rows[-1] + rows[int(n.min())]"), f32(6, 3), i64(1, 5, 3)),
    case("aten::len.t", with_rows("return x * len(rows)"), f32(6, 3), i64(1, 5, 3)),
    case("prim::Optional", "def forward(self, x, n) -> Optional[Tensor]:\n  return x * 2 if int(n.max()) > 2 else None\n",
         f32(6, 3), i64(1, 5, 3), recorded_as="prim::If"),
    case("prim::ListConstruct", with_rows("return torch.cat(rows)"), f32(6, 3), i64(1, 5, 3)),
    case("aten::cat", with_rows("return torch.cat(rows, -1)"), f32(6, 3), i64(1, 5, 3)),
    case("aten::stack", with_rows("return torch.stack(rows, -1)"), f32(6, 3), i64(1, 5, 3)),
    case("aten::stack", with_rows("return torch.stack(rows)"), f32(6, 3), i64(1, 5, 3), dynamic="x:1=width"),
    case("aten::hstack", with_rows("return torch.hstack(rows)"), f32(6, 3), i64(1, 5, 3),
         refused="a list whose length depends on data"),
    *[case(key, with_numbers(kind, f"return x * {answer}"), f32(6, 3), i64(1, 5, 3))
      for key, kind, answer in [
          ("aten::sum.int", "int", "sum(found)"), ("aten::sum.float", "float", "sum(found)"),
          ("aten::count.int", "int", "found.count(2)"), ("aten::count.float", "float", "found.count(2.0)"),
          ("aten::__contains__.int_list", "int", "int(4 in found)"),
          ("aten::__contains__.float_list", "float", "int(4.0 in found)"),
          ("aten::tensor", "int", "torch.tensor(found).sum()"), ("aten::tensor", "float", "torch.tensor(found).sum()")]],
    case("aten::sum.int", with_numbers("int", "found.clear()", "return x + sum(found)"), f32(6, 3), i64(1, 5, 3)),
    case("aten::sum.int", "def forward(self, x):\n  return x * sum([x.size(0), 3])", f32(4), dynamic="x:0=n"),
    case("aten::__contains__.int_list", "def forward(self, x):\n  return x * int(x.size(0) in [4, x.size(0) + 1])",
         f32(4), dynamic="x:0=n"),
    case("aten::__contains__.int_list", "def forward(self, x):\n  return x * int(4 in [x.size(0), 1])",
         f32(4), dynamic="x:0=n"),
]
