"""A user's operator that returns nothing and only writes to its argument."""

import torch

_library = torch.library.Library("whence_writing_lib", "DEF")  # registered as long as this object exists
_library.define("add_into(Tensor(a!) x, Tensor y) -> ()")
_library.impl("add_into", lambda x, y: (x.add_(y), None)[1], "CompositeExplicitAutograd")


class Writes(torch.nn.Module):
    def forward(self, x, y):
        z = x.clone()
        torch.ops.whence_writing_lib.add_into(z, y)
        return z


def program() -> torch.export.ExportedProgram:
    return torch.export.export(Writes(), (torch.randn(3), torch.randn(3)))
