"""Traces all-MiniLM-L6-v2 into a TorchScript archive, and saves the traced sentences as example inputs.

usage: trace_minilm.py FOLDER    writes FOLDER/minilm.pt and FOLDER/minilm_inputs.pt
"""

import sys
from pathlib import Path

import torch

import minilm

SENTENCES = ["A man is playing a guitar on stage.", "Someone performs music in front of an audience."]


def main(folder: Path) -> None:
    model = minilm.load_model()
    inputs = minilm.tokenize(SENTENCES)
    with torch.no_grad():
        traced = torch.jit.trace(model, (inputs["input_ids"], inputs["attention_mask"]), check_trace=False)
    folder.mkdir(parents=True, exist_ok=True)
    torch.jit.save(traced, folder / "minilm.pt")
    torch.save(inputs, folder / "minilm_inputs.pt")
    parameters = sum(parameter.numel() for parameter in model.parameters())
    print(f"{folder / 'minilm.pt'}: {len(list(model.modules()))} modules, {parameters} parameters, traced with 2 sentences")


if __name__ == "__main__":
    main(Path(sys.argv[1]))
