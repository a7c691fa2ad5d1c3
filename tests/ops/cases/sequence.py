"""Lists whose length depends on data. That a list is one shows in how a loop or branch before the operator uses it."""

from ops.case import case, f32, i64

GROWN = """def forward(self, x, n):
  rows = [x[0]]
  for t in range(int(n.max())):
    rows.append(x[t] * 2)
"""


def grown(*then: str) -> str:
    """Rows of x, as many as n says, and what is done with them."""
    return GROWN + "".join(f"  {line}\n" for line in then)


def changed(key: str, *then: str):
    return case(key, grown(*then, "return torch.stack(rows)"), f32(6, 3), i64(1, 5, 3))


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
    case("prim::ListConstruct", grown("return torch.cat(rows)"), f32(6, 3), i64(1, 5, 3)),
    case("aten::cat", grown("return torch.cat(rows, -1)"), f32(6, 3), i64(1, 5, 3)),
    case("aten::stack", grown("return torch.stack(rows, -1)"), f32(6, 3), i64(1, 5, 3)),
    case("aten::stack", grown("return torch.stack(rows)"), f32(6, 3), i64(1, 5, 3), dynamic="x:1=width"),
    case("aten::hstack", grown("return torch.hstack(rows)"), f32(6, 3), i64(1, 5, 3),
         refused="a list whose length depends on data"),
]
