"""Arithmetic and comparisons of Python numbers in scripts, with a dynamic size or an element as one operand."""

from ops.case import case, f32, i64

INT, FLOAT, EITHER = "x.size(0)", "float(x.size(0))", "x.sum().item()"
OPERANDS = {"int": (INT, "3"), "float": (FLOAT, "2.5"), "int_float": (INT, "2.5"), "float_int": (FLOAT, "3"),
            "": (EITHER, "-3")}
SIGNS = {"add": "+", "sub": "-", "mul": "*", "floordiv": "//", "remainder": "%",
         "eq": "==", "ne": "!=", "lt": "<", "le": "<=", "gt": ">", "ge": ">="}


def scripted(key: str, expression: str):
    return case(key, f"def forward(self, x):\n  return {expression}", i64(-9, 9, 3), dynamic="x:0=n")


def keyed(name: str, overload: str) -> str:
    return f"{name}.{overload}" if overload else name


CASES = [
    *[scripted(keyed(f"aten::{name}", overload), f"{a} {sign} {b}")
      for name, sign in SIGNS.items() for overload, (a, b) in OPERANDS.items()],
    *[scripted(keyed(f"prim::{name}", overload), f"{name}({a}, {b})")
      for name in ("min", "max") for overload, (a, b) in OPERANDS.items()],
    *[case(f"aten::__{part}", "def forward(self, x):\n  total = x * 0\n"
           f"  for i in range({bounds}):\n    total = total + x * i\n  return total", i64(2, 9, 3), dynamic="x:0=n")
      for part in ("range_length", "derive_index")
      for bounds in ("1, int(x.max())", "int(x.max()), 0, -2", "2, 9, int(x.min())")],
    *[scripted(f"prim::{name}.self_int", f"{name}([{INT}, 4, int(x.max()), {INT} * 2])") for name in ("min", "max")],
    *[case(f"aten::{name}.int_list", f"def forward(self, x, y):\n  return {compared}, x * 1", f32(3, 4), f32(3, 4),
           dynamic="x:0=n y:0=m")
      for name, sign in (("eq", "=="), ("ne", "!="))
      for compared in (f"x.shape {sign} y.shape", f"x.shape {sign} [x.size(0), 5]", f"x.shape {sign} [4]")],
    scripted("aten::div", f"{EITHER} / 4"),
    scripted("aten::div.int", f"{INT} / 4"),
    scripted("aten::div.float", f"{FLOAT} / 2.5"),
    scripted("aten::pow.int", f"{INT} ** 2"),
    scripted("aten::pow.float", f"{FLOAT} ** 0.5"),
    scripted("aten::pow.int_float", f"{INT} ** 0.5"),
    scripted("aten::pow.float_int", f"{FLOAT} ** 2"),
    scripted("aten::pow.Scalar_Scalar", f"{EITHER} ** x.max().item()"),
    scripted("aten::eq.bool", f"({INT} > 4) == True"),
    scripted("aten::ne.bool", f"({INT} > 4) != True"),
    scripted("aten::__and__.bool", f"({INT} > 2) & ({INT} > 4)"),
    scripted("aten::__or__.bool", f"({INT} > 2) | ({INT} > 4)"),
    scripted("aten::__xor__.bool", f"({INT} > 2) ^ ({INT} > 4)"),
    scripted("aten::__not__", f"not ({INT} > 4)"),
    *[scripted(f"aten::{name}.{overload}", f"torch.ops.aten.{name}({value})")
      for name in ("ceil", "floor", "sqrt")
      for overload, value in (("int", INT), ("float", f"{FLOAT} / 2"), ("Scalar", "x.abs().sum().item()"))],
    *[scripted(f"aten::neg.{overload}", f"-{value}")
      for overload, value in (("int", INT), ("float", FLOAT), ("Scalar", EITHER))],
    *[scripted(f"prim::abs.{overload}", f"abs({value})")
      for overload, value in (("int", f"-{INT}"), ("float", f"-{FLOAT}"), ("Scalar", EITHER))],
    case("prim::tolist", "def forward(self, x):\n  l: List[int] = x.tolist()\n  return x * l[0] + l[2]", i64(-9, 9, 3)),
    case("prim::tolist", "def forward(self, x):\n  l: List[int] = x.tolist()\n  return torch.ones(l[0], l[1]) * l[1]",
         i64(2, 5, 2)),
    case("prim::tolist", "def forward(self, x):\n  l: List[float] = x.tolist()\n  return x * l[1] - l[0]", f32(3)),
    case("prim::tolist", "def forward(self, x):\n  l: List[int] = x[x > 2].tolist()\n  return x * l[0]", i64(-9, 9, 6),
         refused="differs from run to run"),
]
