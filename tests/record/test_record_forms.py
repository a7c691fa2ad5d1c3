"""Recordings compared with values written by hand: figures of BERT-tiny, numbers of calls, scripted modules."""

import pytest
import torch
from torch import nn

import command
from models import zoo
from record.test_record_scopes import recorded
from sidecar import Sidecar


def test_figures_of_bert_tiny():
    sidecar = recorded("bert_tiny")
    modules = sidecar.table("modules")
    assert len(modules) == 48
    assert modules[0]["parameters_total"] == 4_385_920
    assert modules[0]["type"] == "transformers.models.bert.modeling_bert.BertModel"


def test_shared_modules_are_one_row_with_every_call():
    sidecar = recorded("shared_block")
    modules = {row["path"]: row for row in sidecar.table("modules")}
    assert modules["block"]["aliases"] == ["tail.3"]
    assert modules["first_name"]["aliases"] == ["second_name"]
    assert "tail.3" not in modules and "second_name" not in modules
    calls = [(row["module"], row["call"]) for row in sidecar.operations() if row["target"] == "aten::linear"]
    assert calls == [("block.linear", 0), ("block.linear", 1), ("first_name", 0), ("first_name", 1),
                     ("layers.0.linear", 0), ("layers.1.linear", 0), ("tail.0", 0), ("block.linear", 2), ("", 0),
                     ("heads.mean", 0), ("heads.scale", 0)]


def test_tied_weights_are_one_parameter():
    sidecar = recorded("gpt2")
    tied = [row for row in sidecar.table("parameters") if row["aliases"]]
    assert [(row["name"], row["aliases"]) for row in tied] == [("transformer.wte.weight", ["lm_head.weight"])]


class Gate(nn.Module):
    def __init__(self):
        super().__init__()
        self.linear = nn.Linear(4, 4)

    def forward(self, x):
        return torch.sigmoid(self.linear(x)) * x


class Branching(nn.Module):
    """Has control flow that a trace would lose: a condition on a value, a loop over a list."""

    def __init__(self):
        super().__init__()
        self.gates = nn.ModuleList([Gate(), Gate()])
        self.last = nn.Linear(4, 2)

    def forward(self, x):
        for gate in self.gates:
            x = gate(x)
        if bool(x.sum() > 0):
            x = self.last(x)
        else:
            x = torch.relu(self.last(x))
        return x


@pytest.fixture(scope="module")
def scripted(tmp_path_factory):
    folder = tmp_path_factory.mktemp("scripted")
    torch.manual_seed(0)
    torch.jit.script(Branching().eval()).save(str(folder / "model.pt"))
    command.run("record", folder / "model.pt", "-o", folder / "model.whence.json", "--input", "x=float32[3,4]")
    return Sidecar(folder / "model.whence.json")


def test_scripted_modules_keep_their_paths(scripted):
    operations = [(row["target"], row["module"]) for row in scripted.operations()]
    for operation in [("aten::linear", "gates.0.linear"), ("aten::sigmoid", "gates.0"), ("aten::mul", "gates.1"),
                      ("aten::linear", "gates.1.linear"), ("prim::If", ""), ("aten::relu", "")]:
        assert operation in operations
    # Both branches are recorded, and each calls `last`.
    assert operations.count(("aten::linear", "last")) == 2


def test_scripted_modules_keep_their_class_names(scripted):
    types = {row["path"]: (row["type"].rpartition(".")[2], row["standard"]) for row in scripted.table("modules")}
    assert types == {"": ("Branching", False), "gates": ("ModuleList", True), "gates.0": ("Gate", False),
                     "gates.0.linear": ("Linear", True), "gates.1": ("Gate", False), "gates.1.linear": ("Linear", True),
                     "last": ("Linear", True)}


def test_scripted_modules_have_a_source(scripted):
    sigmoid = next(row for row in scripted.operations() if row["target"] == "aten::sigmoid")
    assert sigmoid["frames"][0]["file"].endswith("test_record_forms.py")


def test_recording_twice_gives_the_same_bytes(tmp_path):
    paths = [tmp_path / "one.json", tmp_path / "two.json"]
    for path in paths:
        command.run("record", zoo.trace("bert_tiny"), "-o", path, own_process=True)
    assert paths[0].read_bytes() == paths[1].read_bytes()


def test_folders_of_this_machine_are_not_recorded(tmp_path):
    command.run("record", zoo.trace("shared_block"), "-o", tmp_path / "s.json")
    text = (tmp_path / "s.json").read_text()
    assert str(zoo.folder()) not in text
    assert '"file": "shared_block.pt"' in text


class Shared(nn.Module):
    """One embedding with two parents."""

    def __init__(self):
        super().__init__()
        embedding = nn.Embedding(5, 4)
        self.encoder = nn.ModuleDict({"embed": embedding, "act": nn.ReLU()})
        self.decoder = nn.ModuleDict({"embed": embedding, "act": nn.ReLU()})

    def forward(self, x):
        return self.encoder["act"](self.encoder["embed"](x)) + self.decoder["act"](self.decoder["embed"](x))


class Tied(nn.Module):
    """Two embeddings with one weight are still two modules."""

    def __init__(self):
        super().__init__()
        self.encoder = nn.Embedding(5, 4)
        self.decoder = nn.Embedding(5, 4)
        self.decoder.weight = self.encoder.weight

    def forward(self, x):
        return self.encoder(x) + self.decoder(x)


def rows_of(model: nn.Module, folder) -> tuple[dict, list]:
    zoo.trace_module(model.eval(), {"x": torch.tensor([1, 2])}).save(str(folder / "m.pt"))
    command.run("record", folder / "m.pt", "-o", folder / "m.json")
    sidecar = Sidecar(folder / "m.json")
    calls = [(row["module"], row["call"]) for row in sidecar.operations() if row["target"] == "aten::embedding"]
    return {row["path"]: row["aliases"] for row in sidecar.table("modules")}, calls


def test_module_with_two_parents(tmp_path):
    modules, calls = rows_of(Shared(), tmp_path)
    assert modules == {"": [], "encoder": [], "encoder.embed": ["decoder.embed"], "encoder.act": [], "decoder": [],
                       "decoder.act": []}
    assert calls == [("encoder.embed", 0), ("encoder.embed", 1)]


def test_tied_weights_do_not_merge_modules(tmp_path):
    modules, calls = rows_of(Tied(), tmp_path)
    assert modules == {"": [], "encoder": [], "decoder": []}
    assert calls == [("encoder", 0), ("decoder", 0)]
    parameters = Sidecar(tmp_path / "m.json").table("parameters")
    assert [(row["name"], row["aliases"]) for row in parameters] == [("encoder.weight", ["decoder.weight"])]


class Stack(nn.Module):
    """An encoder stack like T5's, with an embedding whose weight is tied to the model's."""

    def __init__(self):
        super().__init__()
        self.embed_tokens = nn.Embedding(10, 4)

    def forward(self, x):
        return self.embed_tokens(x).sum(1)


class TiedUncalled(nn.Module):
    def __init__(self):
        super().__init__()
        self.shared = nn.Embedding(10, 4)
        self.encoder = Stack()
        self.encoder.embed_tokens.weight = self.shared.weight

    def forward(self, x):
        return self.encoder(x)


def test_tied_embedding_without_calls_stays_a_module(tmp_path):
    modules, calls = rows_of(TiedUncalled(), tmp_path)
    assert modules == {"": [], "shared": [], "encoder": [], "encoder.embed_tokens": []}
    assert calls == [("encoder.embed_tokens", 0)]
