"""Grouped matrix products: groups of rows, of columns and of the summed axis, and empty groups."""

import torch
import transformers.integrations.moe  # noqa: F401, registers transformers::grouped_mm_fallback

from ops.case import FixedInput, case, f32, per_run


def ends(first: list[int], second: list[int]) -> FixedInput:
    """Describes the end indices of groups."""
    return per_run(torch.tensor(first, dtype=torch.int32), torch.tensor(second, dtype=torch.int32))


THREE_GROUPS, TWO_GROUPS = ends([2, 5, 8], [1, 4, 8]), ends([4, 12], [8, 12])
EMPTY_GROUPS = ends([0, 5, 5, 8], [3, 3, 8, 8])


def grouped(function, *inputs):
    return case("aten::_grouped_mm", function, *inputs, not_in_archives="torch.export accepts only bfloat16")


CASES = [
    grouped(lambda x, w, offs: torch._grouped_mm(x, w, offs=offs), f32(8, 16), f32(3, 16, 8),
         THREE_GROUPS),
    grouped(lambda x, w, offs: torch._grouped_mm(x, w, offs=offs), f32(8, 16), f32(4, 16, 8),
         EMPTY_GROUPS),
    grouped(lambda x, w, offs: torch._grouped_mm(x, w, offs=offs), f32(2, 8, 16), f32(16, 12),
         TWO_GROUPS),
    grouped(lambda x, w, offs: torch._grouped_mm(x, w, offs=offs), f32(8, 12), f32(12, 16),
         TWO_GROUPS),
    grouped(lambda x, w: torch._grouped_mm(x, w), f32(2, 8, 16), f32(2, 16, 12)),
    *(case("transformers::grouped_mm_fallback",
           lambda x, w, offs: torch.ops.transformers.grouped_mm_fallback(x, w, offs),
           f32(8, 16), f32(len(offs.first), 16, 8), offs, not_in_traces="transformers registers it")
      for offs in (THREE_GROUPS, EMPTY_GROUPS)),
]
