"""Tests `whence diff`: the change of each node, by module."""

import json

import onnx
import onnxruntime
import pytest
import torch

import command
from validate.onnx_files import chain, known, model, node
from validate.test_coverage import annotated, schema


def diff(*arguments, code: int = 0) -> dict:
    return command.run_json("diff", *arguments, code=code)


def counts(**changes: int) -> dict:
    """Returns the counts of all kinds of changes; omitted kinds have the count 0."""
    kinds = ("added", "removed", "fused", "replaced", "changed", "renamed", "moved")
    assert set(changes) <= set(kinds)
    return {kind: changes.get(kind, 0) for kind in kinds}


def fused_model(path, before: bool) -> str:
    """Writes conv and norm between two other nodes: as two nodes, or as one node with the norm's output."""
    first = node("Relu", ["x"], "a", "first", known("stem"))
    last = node("Relu", ["c"], "d", "last", known("head"))
    if before:
        middle = [node("Sin", ["a"], "b", "conv", known("block.conv")),
                  node("Cos", ["b"], "c", "bn", known("block.bn"))]
    else:
        keys = {**known("block"), "pkg.whence.modules": '["block.bn","block.conv"]'}
        middle = [node("Sin", ["a"], "c", "conv", keys)]
    return model([first, *middle, last], path)


def rows(result: dict) -> dict:
    return {row["path"]: row for row in result["modules"]}


def test_a_file_does_not_differ_from_itself():
    path, _ = annotated("shared_block")
    result = diff(path, path, "--exit-code")
    assert result["same"] and not result["changed_nodes"] and not any(result["changes"].values())
    assert result["nodes"][0] == result["nodes"][1] >= 30
    assert "no difference" in command.run("diff", path, path).stdout


def test_annotating_only_renames(tmp_path):
    path, _ = annotated("shared_block")
    command.run("strip", path, "-o", tmp_path / "plain.onnx")
    result = diff(tmp_path / "plain.onnx", path)
    changes = result["changes"]
    assert changes["renamed"] + changes["moved"] > 0
    assert (changes["added"], changes["removed"], changes["fused"]) == (0, 0, 0)


def test_fused_nodes_list_the_old_nodes(tmp_path):
    result = diff(fused_model(tmp_path / "a.onnx", True), fused_model(tmp_path / "b.onnx", False))
    assert result["changes"] == counts(fused=1)
    changed = result["changed_nodes"][0]
    assert changed["fused"] == ["Sin conv", "Cos bn"]
    assert changed["modules"] == [["block.bn", "block.conv"], ["block.bn", "block.conv"]]
    found = rows(result)
    assert found["block"]["nodes"] == [2, 1] and found["block"]["changes"]["fused"] == 1
    assert found["stem"]["changes"]["fused"] == 0 and found["stem"]["nodes"] == [1, 1]


def three_blocks(path, before: bool, keys: bool = True) -> str:
    """Writes three blocks of conv and act, before or after a tool that renames all values between the blocks, fuses the
    two nodes of the first block, and inserts a node before each other block."""
    def at(name, *several):
        more = {"pkg.whence.modules": json.dumps(several)} if several else {}
        return {**known(name), **more} if keys else {}

    nodes, value = [], "x"
    for i in range(3):
        conv, act, end = (f"blocks.{i}.conv", f"blocks.{i}.act", "y" if i == 2 else f"{'v' if before else 'n'}{i}")
        middle = f"{'m' if before else 'o'}{i}"
        if before:
            nodes += [node("Sin", [value], middle, f"c{i}", at(conv)), node("Sigmoid", [middle], end, f"s{i}", at(act))]
        elif i == 0:
            nodes += [node("Tanh", [value], end, "fused0", at("blocks.0", conv, act))]
        else:
            nodes += [node("Identity", [value], f"r{i}", f"reorder{i}", at(conv)),
                      node("Sin", [f"r{i}"], middle, f"C{i}", at(conv)),
                      node("Sigmoid", [middle], end, f"S{i}", at(act))]
        value = end
    return model(nodes, path)


def test_nodes_are_paired_by_module(tmp_path):
    """All values between the blocks have new names, so value names cannot tell which nodes belong together."""
    result = diff(three_blocks(tmp_path / "a.onnx", True), three_blocks(tmp_path / "b.onnx", False))
    assert result["changes"] == counts(added=2, fused=1, renamed=4)
    fused, = (each for each in result["changed_nodes"] if each["change"] == "fused")
    assert fused["fused"] == ["Sin c0", "Sigmoid s0"]
    found = rows(result)
    assert found["blocks.1"]["changes"]["fused"] == found["blocks.2"]["changes"]["fused"] == 0


@pytest.mark.parametrize("with_keys", [(True, False), (False, True), (False, False)])
def test_without_modules_nodes_are_paired_by_value(tmp_path, with_keys):
    result = diff(three_blocks(tmp_path / "a.onnx", True, with_keys[0]),
                  three_blocks(tmp_path / "b.onnx", False, with_keys[1]))
    assert result["changes"]["fused"] > 0 and result["changes"]["removed"] == 0


class SiLUBlock(torch.nn.Module):
    def __init__(self, channels, stride):
        super().__init__()
        self.conv = torch.nn.Conv2d(channels, 32, 3, stride=stride, padding=1)
        self.act = torch.nn.SiLU()

    def forward(self, x):
        return self.act(self.conv(x))


def test_blocks_are_not_mixed_in_a_file_from_onnx_runtime(tmp_path):
    """With all optimisations, including NCHWc, no node is paired with nodes of a different block."""
    torch.manual_seed(2)
    network = torch.nn.Sequential(SiLUBlock(16, 1), SiLUBlock(32, 2), SiLUBlock(32, 1)).eval()
    archive, before, after, path = (tmp_path / name for name in ("m.pt", "before.onnx", "opt.onnx", "after.onnx"))
    torch.jit.trace(network, torch.randn(1, 16, 24, 24)).save(str(archive))
    command.run("export", archive, "-o", before, "--annotate")
    options = onnxruntime.SessionOptions()
    options.optimized_model_filepath = str(after)
    options.log_severity_level = 3
    onnxruntime.InferenceSession(str(before), options, providers=["CPUExecutionProvider"])
    command.run("annotate", after, "--from", before, "-o", path)
    result = diff(before, path)
    old_modules = {node.name: {e.key: e.value for e in node.metadata_props}["pkg.whence.module"]
            for node in onnx.load(before).graph.node}
    for each in result["changed_nodes"]:
        if each["change"] != "fused":
            continue
        blocks = {module.split(".")[0] for module in each["modules"][1]}
        old_blocks = {old_modules[name.split(" ", 1)[1]].split(".")[0] for name in each["fused"]}
        assert len(old_blocks) == 1 and old_blocks <= blocks, each


@pytest.mark.parametrize("rule", ["inserted", "dataflow"])
def test_a_new_layout_is_inserted_and_replaces_nothing(tmp_path, rule):
    """A ReorderOutput computes the value that a Mul computed before; Sigmoid and Mul are unchanged."""
    first, last = node("Relu", ["x"], "a", "first", known("stem")), node("Relu", ["d"], "e", "last", known("head"))
    before = [node("Sin", ["a"], "b", "conv", known("block.conv")),
              node("Sigmoid", ["b"], "c", "gate", known("block.act")),
              node("Mul", ["b", "c"], "d", "product", known("block.act"))]
    after = [node("Cos", ["a"], "b1", "conv", known("block.conv")),
             node("Sigmoid", ["b1"], "c1", "gate", known("block.act")),
             node("Mul", ["b1", "c1"], "d1", "product", known("block.act")),
             node("ReorderOutput", ["d1"], "d", "reorder", {**known("block.act", "matched"), "pkg.whence.rule": rule},
                  domain="com.microsoft.nchwc")]
    paths = [model([first, *middle, last], tmp_path / name) for middle, name in ((before, "a"), (after, "b"))]
    changed = diff(*paths)["changed_nodes"]
    assert [(each["change"], each["op_type"], each["inserted"]) for each in changed] == [
        ("added", "Cos", False), ("added", "ReorderOutput", True), ("removed", "Sin", False)]
    assert "ReorderOutput reorder inserted in block.act" in command.run("diff", *paths).stdout


def test_added_and_removed_nodes_are_listed(tmp_path):
    short, long = chain(known("a"), known("b")), chain(known("a"), known("b"), known("c"))
    long[2].op_type = "Sin"
    a, b = model(short, tmp_path / "a.onnx"), model(long, tmp_path / "b.onnx")
    forward, backward = diff(a, b), diff(b, a)
    assert (forward["changes"]["added"], backward["changes"]["removed"]) == (1, 1)
    assert forward["changed_nodes"][0]["names"] == [None, "n2"]
    assert backward["changed_nodes"][0]["modules"] == [["c"], []]
    assert rows(forward)["c"]["own_nodes"] == [0, 1]


def test_a_node_absorbed_by_a_kept_node_is_fused(tmp_path):
    a = model([node("Sin", ["x"], "p", "pad", known("m.pad")), node("Cos", ["p"], "y", "conv", known("m.conv"))],
              tmp_path / "a.onnx")
    b = model([node("Cos", ["x"], "y", "conv", known("m.conv"))], tmp_path / "b.onnx")
    assert diff(a, b)["changed_nodes"][0]["fused"] == ["Sin pad", "Cos conv"]


def test_several_nodes_may_replace_several_nodes(tmp_path):
    a = model([node("Sin", ["x"], "p", "matmul", known("m")), node("Cos", ["p"], "y", "add", known("m"))],
              tmp_path / "a.onnx")
    b = model([node("Exp", ["x"], "q", "before", known("m")), node("Tan", ["q"], "r", "gemm", known("m")),
               node("Abs", ["r"], "y", "after", known("m"))], tmp_path / "b.onnx")
    result = diff(a, b)
    assert result["changes"] == counts(fused=3)
    assert [entry["fused"] for entry in result["changed_nodes"]] == [["Sin matmul", "Cos add"]] * 3


def test_constants_do_not_join_a_fusion(tmp_path):
    value = onnx.helper.make_tensor("", onnx.TensorProto.FLOAT, [1], [2.0])
    constant = onnx.helper.make_node("Constant", [], ["c"], name="constant", value=value)
    a = model([constant, node("Mul", ["x", "c"], "y", "mul", known("m"))], tmp_path / "a.onnx")
    folded = onnx.helper.make_tensor("k", onnx.TensorProto.FLOAT, [1], [2.0])
    b = model([node("Mul", ["x", "k"], "y", "mul", known("m"))], tmp_path / "b.onnx", [folded])
    assert diff(a, b)["changes"] == counts(removed=1)


def test_a_removed_no_op_is_removed_not_fused(tmp_path):
    a = model([node("Identity", ["x"], "p", "none", known("m")), node("Cos", ["p"], "y", "conv", known("m"))],
              tmp_path / "a.onnx")
    b = model([node("Cos", ["x"], "y", "conv", known("m"))], tmp_path / "b.onnx")
    assert diff(a, b)["changes"] == counts(removed=1)


def test_files_with_all_names_changed_are_paired_by_module(tmp_path):
    nodes = chain(known("a"), known("b"), known("b"))
    a = model(nodes, tmp_path / "a.onnx")
    for number, entry in enumerate(nodes):
        entry.name = f"other{number}"
        entry.input[:] = [f"w{value[1:]}" if value != "x" else value for value in entry.input]
        entry.output[:] = [f"w{value[1:]}" for value in entry.output]
    result = diff(a, model(nodes, tmp_path / "b.onnx"))
    assert result["changes"] == counts(renamed=3)
    assert result["changed_nodes"][2]["names"] == ["n2", "other2"]


def test_nodes_with_only_renamed_values_are_equal(tmp_path):
    nodes = chain(known("a"), known("b"), known("b"))
    a = model(nodes, tmp_path / "a.onnx")
    for entry in nodes[:-1]:
        entry.output[:] = [f"w{value[1:]}" for value in entry.output]
    for entry in nodes[1:]:
        entry.input[:] = [f"w{value[1:]}" for value in entry.input]
    b = model(nodes, tmp_path / "b.onnx")
    assert [node.output[0] for node in onnx.load(a).graph.node] != [node.output[0] for node in onnx.load(b).graph.node]
    result = diff(a, b)
    assert set(result["changes"].values()) == {0} and result["changed_nodes"] == []


def test_moved_nodes_are_counted(tmp_path):
    a, b = model(chain(known("a"), {}), tmp_path / "a.onnx"), model(chain(known("b"), {}), tmp_path / "b.onnx")
    result = diff(a, b)
    assert result["changes"]["moved"] == 1
    assert result["changed_nodes"][0]["modules"] == [["a"], ["b"]]
    assert result["modules"][-1]["path"] is None and result["modules"][-1]["nodes"] == [1, 1]


def test_parameters_exclude_axes(tmp_path):
    def weighted(path, size):
        weight = onnx.helper.make_tensor("w", onnx.TensorProto.FLOAT, [size], [0.0] * size)
        axes = onnx.helper.make_tensor("axes", onnx.TensorProto.INT64, [3], [0, 1, 2])
        first = node("Add", ["x", "w"], "y", "add", known("m.n"))
        return model([first, node("Sin", ["y", "axes"], "z", "sin", known("m"))], path, [weight, axes])

    result = diff(weighted(tmp_path / "a.onnx", 2), weighted(tmp_path / "b.onnx", 3))
    found = rows(result)
    assert result["parameters"] == found["m"]["parameters"] == found["m.n"]["parameters"] == [2, 3]
    node_change, = result["changed_nodes"]
    assert not result["same"] and node_change["differences"] == ["w: float32[2] -> float32[3]"]


@pytest.mark.parametrize("options, code", [((), 0), (("--exit-code",), 1)])
def test_exit_code_1_for_a_difference_is_optional(tmp_path, options, code):
    a, b = fused_model(tmp_path / "a.onnx", True), fused_model(tmp_path / "b.onnx", False)
    command.run("diff", a, b, *options, code=code)
    command.run("diff", a, a, *options, code=0)


def test_the_text_shows_only_modules_that_differ(tmp_path):
    a, b = fused_model(tmp_path / "a.onnx", True), fused_model(tmp_path / "b.onnx", False)
    text = command.run("diff", a, b).stdout
    assert "conv in block.bn, block.conv for Sin conv, Cos bn" in text
    assert "a.onnx: 4 nodes" in text and "b.onnx: 3 nodes" in text
    shown = [line.split()[0] for line in text.split("\n\n")[1].splitlines()[1:]]
    assert shown == ["(root)", "block", "conv", "bn"]  # without stem and head
    assert "stem" in command.run("diff", a, b, "--all").stdout
    assert "\n    conv " in text and "\n    conv " not in command.run("diff", a, b, "--depth", 1).stdout


def test_long_lists_are_cut_by_default(tmp_path):
    a = model(chain(*[known("m")] * 15), tmp_path / "a.onnx")
    b = model(chain(known("m")), tmp_path / "b.onnx")
    assert "and 4 more: --nodes lists them" in command.run("diff", a, b).stdout
    assert "n14" in command.run("diff", a, b, "--nodes").stdout


def test_json_follows_its_schema(tmp_path):
    path, sidecar = annotated("shared_block")
    command.run("strip", path, "-o", tmp_path / "plain.onnx")
    other = model(chain(known("a"), {}), tmp_path / "other.onnx")
    for arguments in [(path, path), (tmp_path / "plain.onnx", path, "-s", sidecar), (path, other), (other, path)]:
        schema("diff").validate(diff(*arguments))


def test_stamped_files_need_the_sidecar(tmp_path):
    path, sidecar = annotated("shared_block")
    command.run("strip", path, "-o", tmp_path / "plain.onnx")
    assert diff(tmp_path / "plain.onnx", path)["changes"]["moved"] > 0
    assert diff(tmp_path / "plain.onnx", path, "--sidecar", sidecar)["changes"]["moved"] == 0


@pytest.mark.parametrize("options", [("--depth", "-1"), ("--depth", "x")])
def test_invalid_depths_are_usage_errors(tmp_path, options):
    path = model(chain(known("a")), tmp_path / "a.onnx")
    assert "E0101" in command.run("diff", path, path, *options, code=2).stderr


# ---- attributes and weights -----------------------------------------------------------------------------------------


class Head(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.up, self.norm, self.pool = torch.nn.Conv2d(3, 5, 3), torch.nn.GroupNorm(1, 5), torch.nn.MaxPool2d(2)
        self.out = torch.nn.Linear(5, 7)

    def forward(self, x):
        return self.out(self.pool(self.norm(self.up(x))).mean((2, 3)))


def exported_head(path, change=lambda head: None) -> str:
    torch.manual_seed(11)
    head = Head().eval()
    with torch.no_grad():
        change(head)
    torch.export.save(torch.export.export(head, (torch.zeros(1, 3, 12, 12),)), path.with_suffix(".pt2"))
    command.run("export", path.with_suffix(".pt2"), "-o", path, "--annotate")
    return str(path)


def scale(head, factor=1.7):
    head.out.weight *= factor


def one_element(head):
    head.up.weight[2, 1, 0, 2] -= 0.25


CHANGES = {"epsilon": (lambda head: setattr(head.norm, "eps", 0.25), "norm", "epsilon"),
           "stride": (lambda head: setattr(head.pool, "stride", 3), "pool", "strides [2, 2] -> [3, 3]"),
           "one element": (one_element, "up", "1 of 135 elements, by at most 0.25"),
           "all of a weight": (scale, "out", "35 of 35 elements")}


@pytest.mark.parametrize("name", CHANGES)
def test_a_new_attribute_or_weight_is_a_difference(tmp_path, name):
    change, module, fragment = CHANGES[name]
    a, b = exported_head(tmp_path / "a.onnx"), exported_head(tmp_path / "b.onnx", change)
    result = diff(a, b, "--exit-code", code=1)
    schema("diff").validate(result)
    assert not result["same"] and result["changes"] == counts(changed=1), result["changed_nodes"]
    node_change, = result["changed_nodes"]
    assert node_change["modules"] == [[module], [module]]
    assert any(fragment in difference for difference in node_change["differences"])
    found = rows(result)
    assert found[module]["changes"]["changed"] == found[""]["changes"]["changed"] == 1
    text = command.run("diff", a, b).stdout
    assert fragment in text and "changed: 1 node" in text and "no difference" not in text


def test_an_equivalent_file_has_no_difference(tmp_path):
    """The weights may be in external data or in typed fields, and default attributes may be written or omitted."""
    a = exported_head(tmp_path / "a.onnx")
    plain = onnx.load(a)
    onnx.save(plain, tmp_path / "external.onnx", save_as_external_data=True, location="w.bin", size_threshold=0)
    assert diff(a, tmp_path / "external.onnx", "--exit-code")["same"]
    typed = onnx.load(a)
    for tensor in typed.graph.initializer:
        values = onnx.numpy_helper.to_array(tensor)
        tensor.CopyFrom(onnx.helper.make_tensor(tensor.name, tensor.data_type, tensor.dims, values.flatten()))
    defaults = {"Conv": {"group": 1, "auto_pad": "NOTSET"}, "MaxPool": {"ceil_mode": 0, "storage_order": 0},
                "Gemm": {"alpha": 1.0, "beta": 1.0}}
    added = 0
    for each in typed.graph.node:
        for key, value in defaults.get(each.op_type, {}).items():
            if key not in [attribute.name for attribute in each.attribute]:
                each.attribute.append(onnx.helper.make_attribute(key, value))
                added += 1
    assert added > 2
    onnx.save(typed, tmp_path / "typed.onnx")
    assert diff(a, tmp_path / "typed.onnx", "--exit-code")["same"]
    for each in typed.graph.node:
        for attribute in each.attribute:
            if attribute.name == "ceil_mode":
                attribute.i = 1
    onnx.save(typed, tmp_path / "ceiled.onnx")
    change, = diff(a, tmp_path / "ceiled.onnx")["changed_nodes"]
    assert change["differences"] == ["ceil_mode 0 -> 1"]


def test_missing_weights_are_reported_as_not_compared(tmp_path):
    a = exported_head(tmp_path / "a.onnx")
    onnx.save(onnx.load(a), tmp_path / "external.onnx", save_as_external_data=True, location="w.bin", size_threshold=0)
    (tmp_path / "w.bin").unlink()
    result = command.run("diff", a, tmp_path / "external.onnx")
    assert "weights were not compared" in result.stderr and "w.bin" in result.stderr


def test_constants_and_types_of_weights_are_compared(tmp_path):
    def save(path, number, dtype):
        constant = onnx.helper.make_node("Constant", [], ["c"], name="constant",
                                         value=onnx.helper.make_tensor("", onnx.TensorProto.FLOAT, [1], [number]))
        weight = onnx.helper.make_tensor("m.w", dtype, [2], [1, 2])
        return model([constant, node("Mul", ["x", "c"], "a", "mul", known("m")),
                      node("Cast", ["m.w"], "b", "cast", known("m"), to=1), node("Add", ["a", "b"], "y", "add", known("m"))],
                     path, [weight])

    result = diff(save(tmp_path / "a.onnx", 2.0, onnx.TensorProto.FLOAT), save(tmp_path / "b.onnx", 2.5, onnx.TensorProto.FLOAT16))
    assert {each["names"][1]: each["differences"] for each in result["changed_nodes"]} == {
        "constant": ["value 1 of 1 element, by at most 0.5"], "cast": ["m.w: float32[2] -> float16[2]"]}


@pytest.mark.parametrize("operator, differs", [("Sub", True), ("Add", False)])
def test_reordered_operands_are_a_difference_unless_they_commute(tmp_path, operator, differs):
    weight = onnx.helper.make_tensor("w", onnx.TensorProto.FLOAT, [2], [1, 2])

    def save(path, first, second):
        return model([node("Sin", ["x"], "a", "sin", known("m")), node("Cos", ["x"], "b", "cos", known("m")),
                      node(operator, first, "c", "two", known("m")), node(operator, second, "y", "weighed", known("m"))],
                     path, [weight])

    before = save(tmp_path / "a.onnx", ["a", "b"], ["c", "w"])
    result = diff(before, save(tmp_path / "b.onnx", ["b", "a"], ["w", "c"]), "--exit-code", code=int(differs))
    assert result["changes"] == counts(changed=2 if differs else 0)
    assert [each["differences"] for each in result["changed_nodes"]] == [
        ["input 0: a -> b", "input 1: b -> a"], ["input 0: c -> w", "input 1: w -> c"]][:2 if differs else 0]
    change, = diff(before, save(tmp_path / "c.onnx", ["a", "a"], ["c", "w"]))["changed_nodes"]
    assert change["differences"] == ["input 1: b -> a"]


def test_a_stored_and_a_computed_constant_are_equal(tmp_path):
    two = onnx.helper.make_tensor("c", onnx.TensorProto.FLOAT, [1], [2.0])
    last = node("Sub", ["x", "c"], "y", "last", known("m"))
    before = model([onnx.helper.make_node("Constant", [], ["c"], name="constant", value=two), last], tmp_path / "a.onnx")
    result = diff(before, model([last], tmp_path / "b.onnx", [two]))
    assert result["changes"] == counts(removed=1)


def test_a_new_operator_between_two_values_is_a_replacement(tmp_path):
    """One node replaces one, or several nodes replace one, with modules and without."""
    for keys in (known("m.act"), {}):
        a = model([node("Relu", ["x"], "a", "first", keys), node("Sin", ["a"], "b", "gate", keys),
                   node("Relu", ["b"], "c", "last", keys)], tmp_path / "a.onnx")
        b = model([node("Relu", ["x"], "a", "first", keys), node("Cos", ["a"], "b", "fast", keys),
                   node("Relu", ["b"], "c", "last", keys)], tmp_path / "b.onnx")
        result = diff(a, b)
        assert result["changes"] == counts(replaced=1), result["changed_nodes"]
        assert result["changed_nodes"][0]["fused"] == ["Sin gate"] and result["changed_nodes"][0]["names"] == [None, "fast"]
        assert "replaced: 1 node\n  Cos fast" in command.run("diff", a, b).stdout
        decomposed = model([node("Relu", ["x"], "a", "first", keys), node("Exp", ["a"], "e", "exp", keys),
                         node("Log", ["e"], "b", "log", keys), node("Relu", ["b"], "c", "last", keys)], tmp_path / "s.onnx")
        assert diff(a, decomposed)["changes"] == counts(replaced=2)
        # A node that replaces two nodes is a fusion.
        assert diff(decomposed, a)["changes"] == counts(fused=1)


def test_differences_of_the_model_itself_are_reported(tmp_path):
    """The file after has another opset and an additional output."""
    nodes = [node("Relu", ["x"], "a", "first", known("m")), node("Sin", ["a"], "y", "last", known("m"))]
    before = model(nodes, tmp_path / "a.onnx")
    after = onnx.load(before)
    after.opset_import[0].version += 1
    after.graph.output.append(onnx.helper.make_tensor_value_info("a", onnx.TensorProto.FLOAT, None))
    onnx.save(after, tmp_path / "b.onnx")
    version = after.opset_import[0].version
    result = diff(before, tmp_path / "b.onnx")
    assert not result["same"] and result["model"] == [f"opset {version - 1} -> {version}", "output a added"]
    output = command.run("diff", before, tmp_path / "b.onnx", "--exit-code", code=1).stdout
    assert "no difference" not in output and f"opset {version - 1} -> {version}, output a added" in output
    assert diff(before, before)["model"] == []
