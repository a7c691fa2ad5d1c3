"""Writes the tables of this folder, in an environment with executorch 1.5.1: python write_tables.py FOLDER."""

import copy
import sys
from pathlib import Path

import torch
from executorch.backends.xnnpack.partition.xnnpack_partitioner import XnnpackPartitioner
from executorch.devtools import Inspector, generate_etrecord
from executorch.exir import to_edge, to_edge_transform_and_lower
from executorch.extension.pybindings.portable_lib import _load_for_executorch
from network import Net


def inspector(program, name: str, folder: Path, x: torch.Tensor) -> Inspector:
    """Runs the program five times. `folder` has its ETRecord."""
    program.save(str(folder / f"{name}.pte"))
    module = _load_for_executorch(str(folder / f"{name}.pte"), enable_etdump=True)
    for _ in range(5):
        module.forward((x,))
    module.write_etdump_result_to_file(str(folder / f"{name}.etdump"), str(folder / f"{name}.buffer"))
    return Inspector(etdump_path=str(folder / f"{name}.etdump"), etrecord=str(folder / f"{name}.etrecord"))


def main(folder: Path) -> None:
    torch.manual_seed(0)
    x = torch.randn(8, 64)
    exported = torch.export.export(Net().eval(), (x,))
    edge = to_edge(exported)
    before = copy.deepcopy(edge)
    portable = edge.to_executorch()
    generate_etrecord(str(folder / "portable.etrecord"), before, portable)
    events = inspector(portable, "portable", folder, x)
    events.to_dataframe().to_csv(folder / "portable.tsv", sep="\t")
    with open(folder / "without_modules.tsv", "w") as file:
        events.save_data_to_tsv(file)
    delegated = to_edge_transform_and_lower(exported, partitioner=[XnnpackPartitioner()],
                                            generate_etrecord=True).to_executorch()
    delegated.get_etrecord().save(str(folder / "xnnpack.etrecord"))
    inspector(delegated, "xnnpack", folder, x).to_dataframe().to_csv(folder / "xnnpack.tsv", sep="\t")


if __name__ == "__main__":
    main(Path(sys.argv[1]))
