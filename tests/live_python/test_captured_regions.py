"""torch.export inserts submodules for regions and checks when it recaptures a program. They are not reported as the
user's modules, but user modules with similar names are."""

import torch

import command
import whence


class Region(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.linear = torch.nn.Linear(8, 8)

    def forward(self, x):
        with torch.no_grad():
            y = self.linear(x).relu()
        with torch.autocast("cpu", dtype=torch.bfloat16):
            y = self.linear(y)
        return self.linear(y.float())


def paths(model: torch.nn.Module, folder) -> set[str]:
    with whence.record(folder / "model.json"):
        torch.export.export(model, (torch.randn(4, 8),))
    return {row["path"] for row in command.run_json("show", folder / "model.json")["modules"]}


def test_inserted_regions_are_not_user_modules(tmp_path):
    program = torch.export.export(torch.nn.Sequential(Region(), Region()), (torch.randn(4, 8),))
    captured = {entry.fqn for entry in torch.export.export(program.module(), (torch.randn(4, 8),)).module_call_graph}
    assert any(path.startswith("submod_") for path in captured)  # inserted by PyTorch
    assert paths(program.module(), tmp_path) == {"", "0", "0.linear", "1", "1.linear"}


def test_user_modules_named_like_regions(tmp_path):
    class Holder(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.submod_1, self.submod_2 = torch.nn.Linear(8, 8), torch.nn.Sequential(torch.nn.ReLU())

        def forward(self, x):
            return self.submod_2(self.submod_1(x))

    assert paths(Holder(), tmp_path) == {"", "submod_1", "submod_2", "submod_2.0"}
