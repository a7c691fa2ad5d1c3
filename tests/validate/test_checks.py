"""Tests each check on an invalid file and on a valid one."""

import json
import re

import onnx
import pytest
from onnx import TensorProto, helper

import command
from validate.onnx_files import CONFIDENCE, ID, MODULE, add_key, chain, external, known, model, node


def codes(path, *options) -> dict:
    """Returns {code: subjects} of the findings. Asserts that the exit code agrees with them."""
    result = command.run("validate", path, "--json", *options, code=None)
    report = json.loads(result.stdout)
    assert result.returncode == (0 if report["clean"] else 1)
    assert report["clean"] == (all(finding["allowed"] for finding in report["findings"]) and not report["shortfalls"])
    return {finding["code"]: [item["subject"] for item in finding["items"]] for finding in report["findings"]}


def test_a_valid_file_has_no_finding(tmp_path):
    assert codes(model(chain(known(""), known("a.b")), tmp_path / "m.onnx"), "--full") == {}


def test_v101_empty_node_name(tmp_path):
    path = model([node("Relu", ["x"], "y"), node("Relu", ["y"], "z", "named")], tmp_path / "m.onnx")
    assert codes(path) == {"V101": ["Relu -> y"]}
    assert "`whence annotate` names the nodes whose module it finds" in command.run("validate", path, code=None).stdout


def test_v102_duplicate_node_name(tmp_path):
    path = model([node("Relu", ["x"], "y", "same"), node("Relu", ["y"], "z", "same")], tmp_path / "m.onnx")
    assert codes(path) == {"V102": ["same"]}


def test_v102_includes_branches(tmp_path):
    branch = helper.make_graph([node("Relu", ["x"], "b", "same")], "branch", [],
                               [helper.make_tensor_value_info("b", TensorProto.FLOAT, [2])])
    nodes = [node("Relu", ["x"], "y", "same"),
             node("If", ["c"], "z", "if", then_branch=branch, else_branch=helper.make_graph([], "empty", [], []))]
    assert codes(model(nodes, tmp_path / "m.onnx")) == {"V102": ["same"]}


def test_v103_duplicate_metadata_key(tmp_path):
    nodes = chain(known("a"))
    add_key(nodes[0], MODULE, "b")
    assert codes(model(nodes, tmp_path / "m.onnx")) == {"V103": ["n0"]}


def test_v103_includes_the_model(tmp_path):
    path = model(chain({}), tmp_path / "m.onnx")
    proto = onnx.load(path)
    add_key(proto, "k", "1")
    add_key(proto, "k", "2")
    (tmp_path / "m.onnx").write_bytes(proto.SerializeToString())
    assert codes(path) == {"V103": ["the model"]}


def test_v104_metadata_under_an_old_ir_version(tmp_path):
    assert codes(model(chain(known("a"), {}), tmp_path / "m.onnx", ir_version=9)) == {"V104": ["n0"]}
    assert codes(model(chain({}, {}), tmp_path / "m.onnx", ir_version=9)) == {}


def test_v104_includes_all_metadata(tmp_path):
    inner = node("Add", ["a", "a"], "b", "add", known("m"))
    twice = helper.make_function("pkg.mine", "Twice", ["a"], ["b"], [inner], [helper.make_opsetid("", 18)])
    path = model([node("Twice", ["x"], "y", "call", domain="pkg.mine")], tmp_path / "m.onnx", functions=[twice],
                 opsets=[helper.make_opsetid("", 18), helper.make_opsetid("pkg.mine", 1)], ir_version=9)
    proto = onnx.load(path)
    add_key(proto.graph.input[0], "k", "1")
    (tmp_path / "m.onnx").write_bytes(proto.SerializeToString())
    assert codes(path) == {"V104": ["value x", "add"]}


def test_v105_undefined_function(tmp_path):
    opsets = [helper.make_opsetid("", 18), helper.make_opsetid("pkg.mine", 1), helper.make_opsetid("com.microsoft", 1)]
    twice = helper.make_function("pkg.mine", "Twice", ["a"], ["b"], [node("Add", ["a", "a"], "b", "add")], opsets[:1])
    nodes = [node("Twice", ["x"], "y", "right", domain="pkg.mine"),
             node("Thrice", ["y"], "z", "wrong", domain="pkg.mine"),
             node("FastGelu", ["z"], "w", "runtime", domain="com.microsoft")]
    assert codes(model(nodes, tmp_path / "m.onnx", functions=[twice], opsets=opsets)) == {"V105": ["wrong"]}


def test_v106_domain_without_import(tmp_path):
    nodes = [node("Relu", ["x"], "y", "a"), node("FastGelu", ["y"], "z", "b", domain="com.microsoft")]
    assert codes(model(nodes, tmp_path / "m.onnx")) == {"V106": ["com.microsoft"]}


OPSETS = [helper.make_opsetid("", 18), helper.make_opsetid("pkg.mine", 1)]


def twice(**options) -> onnx.FunctionProto:
    """Returns the function pkg.mine::Twice(a) = a + a."""
    return helper.make_function("pkg.mine", "Twice", ["a"], ["b"], [node("Add", ["a", "a"], "b", "add", **options)],
                                OPSETS[:1])


def test_v107_calls_with_wrong_arity(tmp_path):
    call = {"domain": "pkg.mine"}
    more = node("Twice", ["x", "x"], "z", "more", **call)
    nodes = [node("Twice", ["x"], "y", "right", **call), more, node("Twice", [], "v", "fewer", **call),
             helper.make_node("Twice", ["x"], ["w", "u"], "outputs", domain="pkg.mine")]
    path = model(nodes, tmp_path / "m.onnx", functions=[twice()], opsets=OPSETS)
    assert codes(path) == {"V107": ["more", "fewer", "outputs"]}


def test_v107_allows_optional_inputs(tmp_path):
    clips = helper.make_function("pkg.mine", "Clips", ["a", "low"], ["b"], [node("Clip", ["a", "low"], "b", "clip")],
                                 OPSETS[:1])
    path = model([node("Clips", ["x"], "y", "call", domain="pkg.mine")], tmp_path / "m.onnx", functions=[clips],
                 opsets=OPSETS)
    assert codes(path) == {}


def referring(name: str, attribute: str, reference: str) -> onnx.NodeProto:
    result = node("LeakyRelu", ["a"], "b", name)
    result.attribute.add(name=attribute, type=onnx.AttributeProto.FLOAT, ref_attr_name=reference)
    return result


def test_v108_undeclared_attribute(tmp_path):
    functions = [helper.make_function("pkg.mine", name, ["a"], ["b"], [referring(name, "alpha", "slope")], OPSETS[:1],
                                      attributes) for name, attributes in [("Right", ["slope"]), ("Wrong", [])]]
    default = onnx.AttributeProto(name="slope", type=onnx.AttributeProto.FLOAT, f=0.5)
    functions.append(helper.make_function("pkg.mine", "Default", ["a"], ["b"], [referring("d", "alpha", "slope")],
                                          OPSETS[:1], attribute_protos=[default]))
    nodes = [node("Right", ["x"], "y", "call", domain="pkg.mine", slope=0.1)]
    path = model(nodes, tmp_path / "m.onnx", functions=functions, opsets=OPSETS)
    assert codes(path) == {"V108": ["Wrong"]}


def test_v108_reference_in_the_graph(tmp_path):
    outside = referring("outside", "alpha", "slope")
    outside.input[:] = ["x"]
    assert codes(model([outside], tmp_path / "m.onnx")) == {"V108": ["outside"]}


def test_v109_domain_imported_twice(tmp_path):
    opsets = [helper.make_opsetid("", 18), helper.make_opsetid("ai.onnx", 17)]
    assert codes(model(chain({}), tmp_path / "m.onnx", opsets=opsets)) == {"V109": ["ai.onnx"]}


def test_v110_unknown_dtype(tmp_path):
    path = model(chain({}), tmp_path / "m.onnx", [onnx.TensorProto(name="undefined", dims=[0])])
    proto = onnx.load(path)
    proto.graph.value_info.append(helper.make_tensor_value_info("v0", TensorProto.FLOAT, [2]))
    proto.graph.value_info[0].type.tensor_type.elem_type = 99
    sequence = helper.make_tensor_sequence_value_info("s", TensorProto.FLOAT, [2])
    proto.graph.input.append(sequence)  # valid
    (tmp_path / "m.onnx").write_bytes(proto.SerializeToString())
    assert codes(path) == {"V110": ["undefined", "v0"]}


def test_v111_bytes_that_do_not_fit_the_shape(tmp_path):
    def tensor(name, data_type, dims, size):
        return onnx.TensorProto(name=name, data_type=data_type, dims=dims, raw_data=b"\0" * size)

    right = [tensor("floats", TensorProto.FLOAT, [2], 8), tensor("packed", TensorProto.INT4, [3], 2),
             tensor("scalar", TensorProto.INT64, [], 8)]
    wrong = [tensor("more", TensorProto.FLOAT, [2], 12), tensor("fewer", TensorProto.INT4, [5], 2)]
    assert codes(model(chain({}), tmp_path / "m.onnx", right + wrong)) == {"V111": ["more", "fewer"]}


def test_v112_types_of_missing_tensors(tmp_path):
    path = model(chain({}, {}), tmp_path / "m.onnx")
    proto = onnx.load(path)
    proto.graph.value_info.extend(helper.make_tensor_value_info(name, TensorProto.FLOAT, [2]) for name in ("v0", "gone"))
    (tmp_path / "m.onnx").write_bytes(proto.SerializeToString())
    assert codes(path) == {"V112": ["gone"]}


def test_v112_includes_values_around_a_branch(tmp_path):
    described = [helper.make_tensor_value_info(name, TensorProto.FLOAT, [2]) for name in ("y", "b", "gone")]
    branch = helper.make_graph([node("Relu", ["y"], "b", "inner")], "branch", [], [described[1]],
                               value_info=described)
    nodes = [node("Relu", ["x"], "y", "outer"), node("If", ["c"], "z", "if", then_branch=branch, else_branch=branch)]
    assert codes(model(nodes, tmp_path / "m.onnx"))["V112"] == ["gone", "gone"]


@pytest.mark.parametrize("name, shown", [(b"a\xffb", "a\\xffb"), (b"a\x1b[31m", "a\\x1b[31m")])
def test_v113_unreadable_names(name, shown, tmp_path):
    path = model([node("Relu", ["x"], "y", "N" * len(name))], tmp_path / "m.onnx")
    content = (tmp_path / "m.onnx").read_bytes()
    assert content.count(b"N" * len(name)) == 1
    (tmp_path / "m.onnx").write_bytes(content.replace(b"N" * len(name), name))
    assert codes(path) == {"V113": [shown]}


def test_v113_allows_other_alphabets(tmp_path):
    assert codes(model([node("Relu", ["x"], "y", "層/关注")], tmp_path / "m.onnx")) == {}


def test_ai_onnx_is_the_empty_domain(tmp_path):
    path = model([node("Relu", ["x"], "y", "a", domain="ai.onnx")], tmp_path / "m.onnx")
    assert codes(path) == {}


def with_external(folder, tensor) -> str:
    return model([node("Add", ["x", "w"], "y", "add")], folder / "m.onnx", [tensor])


def test_v201_external_file_missing(tmp_path):
    assert codes(with_external(tmp_path, external("w", "w.bin"))) == {"V201": ["w"]}


@pytest.mark.parametrize("spans", [{"offset": 100}, {"offset": 12, "length": 8}, {"length": 4}, {"offset": "x"},
                                   {"offset": 12}, {"offset": "18446744073709551615", "length": 8}])
def test_v202_external_span_does_not_fit(tmp_path, spans):
    (tmp_path / "w.bin").write_bytes(bytes(16))
    assert codes(with_external(tmp_path, external("w", "w.bin", **spans))) == {"V202": ["w"]}


@pytest.mark.parametrize("spans", [{}, {"offset": 8}, {"offset": 8, "length": 8}])
def test_external_spans_that_fit_have_no_finding(tmp_path, spans):
    (tmp_path / "w.bin").write_bytes(bytes(16))
    assert codes(with_external(tmp_path, external("w", "w.bin", **spans))) == {}


@pytest.mark.parametrize("location", ["../w.bin", "/etc/passwd", "sub/../../w.bin"])
def test_v203_external_data_outside_the_folder(tmp_path, location):
    folder = tmp_path / "model"
    folder.mkdir()
    (tmp_path / "w.bin").write_bytes(bytes(8))
    assert codes(with_external(folder, external("w", location))) == {"V203": ["w"]}


def test_v203_through_a_symbolic_link(tmp_path):
    folder = tmp_path / "model"
    folder.mkdir()
    (tmp_path / "w.bin").write_bytes(bytes(8))
    (folder / "w.bin").symlink_to(tmp_path / "w.bin")
    assert codes(with_external(folder, external("w", "w.bin"))) == {"V203": ["w"]}


def test_external_data_in_an_attribute_is_checked(tmp_path):
    nodes = [node("Constant", [], "w", "constant", value=external("inner", "gone.bin")),
             node("Add", ["x", "w"], "y", "add")]
    assert codes(model(nodes, tmp_path / "m.onnx")) == {"V201": ["inner"]}


@pytest.mark.parametrize("keys", [
    {**known("a"), ID: "a/0/relu"}, {**known("a"), ID: '["a/0/relu/0",1]'}, {**known("a"), ID: "[]"}, {**known("a"), ID: "0/relu/0"},
    {MODULE: "a", CONFIDENCE: "certain"},
    {MODULE: "a"},
    {CONFIDENCE: "exact"},
    known("a", "unattributed"),
    {CONFIDENCE: "unattributed", ID: "a/0/relu/0"},
    {"pkg.whence.op": "seventeen"},
    {**known("a"), "pkg.whence.modules": "a, b"},
    {**known("a"), "pkg.whence.modules": '["a.b", "c"]'},
    {**known("a"), "pkg.whence.modules": '["a.b", "ab"]'},
    {**known("a"), "pkg.whence.modules": '["a.b", "a.c"]', "pkg.whence.primary": "ab"},
    {CONFIDENCE: "unattributed", "pkg.whence.primary": "a"},
    known("{module}.a"),
])
def test_v301_malformed_provenance(tmp_path, keys):
    assert codes(model(chain(keys), tmp_path / "m.onnx")) == {"V301": ["n0"]}


@pytest.mark.parametrize("keys", [
    {**known("a"), "pkg.whence.modules": '["a.b", "a.c"]'},
    {**known("a"), "pkg.whence.modules": '["a.b", "a.c.d"]', "pkg.whence.primary": "a.c"},
    {**known(""), "pkg.whence.modules": '["b", "c.d"]'},
    {"pkg.whence.op": "fused:1,2"},
    {MODULE: "a", "pkg.whence.op": "3"},
])
def test_well_formed_provenance_has_no_finding(tmp_path, keys):
    assert codes(model(chain(keys), tmp_path / "m.onnx")) == {}


def test_v401_requires_full(tmp_path):
    path = model([node("Relu", ["missing"], "y", "a")], tmp_path / "m.onnx")
    assert codes(path) == {}
    assert list(codes(path, "--full")) == ["V401"]


def after(tmp_path, before: list, nodes: list, *keys_of_model) -> dict:
    """Returns the findings on a tool that turned `before` into `nodes`. The models may have metadata."""
    paths = [model(nodes_of_file, tmp_path / name) for nodes_of_file, name in ((before, "before.onnx"), (nodes, "after.onnx"))]
    for path, keys in zip(paths, keys_of_model, strict=False):
        proto = onnx.load(path)
        for key, value in keys.items():
            add_key(proto, key, value)
        with open(path, "wb") as file:
            file.write(proto.SerializeToString())
    return codes(paths[1], "--conformance", paths[0])


def origin(module: str, identity: str, confidence: str = "exact", **more: str) -> dict:
    return {**known(module, confidence), ID: identity, **{f"pkg.whence.{key}": value for key, value in more.items()}}


ONE, TWO = origin("a.b", "a.b/0/relu/0"), origin("a.c", "a.c/0/relu/0")
BOTH = origin("a", '["a.b/0/relu/0","a.c/0/relu/0"]', modules='["a.b","a.c"]')


def fused(metadata: dict) -> list:
    return [node("Fused", ["x"], "v1", "fused", metadata)]


def test_a_tool_that_keeps_or_joins_metadata_has_no_finding(tmp_path):
    assert after(tmp_path, chain(ONE, TWO), chain(ONE, TWO)) == {}
    assert after(tmp_path, chain(ONE, TWO), fused(BOTH)) == {}
    assert after(tmp_path, chain(known("a.b"), known("a.c")), fused({**known("a"), "pkg.whence.modules": '["a.b","a.c"]'})) == {}


def test_v601_provenance_dropped(tmp_path):
    assert after(tmp_path, chain(ONE, TWO), chain(ONE, {})) == {"V601": ["n1"]}
    assert after(tmp_path, chain(ONE, TWO), fused({})) == {"V601": ["fused"]}


def test_v601_allows_unattributed_nodes(tmp_path):
    unknown = {CONFIDENCE: "unattributed"}
    assert after(tmp_path, chain(ONE, unknown), [*chain(ONE, unknown), node("Cast", ["v1"], "y", "new", unknown, to=1)]) == {}
    assert after(tmp_path, chain(unknown), chain({})) == {}


@pytest.mark.parametrize("change", [{ID: "a.b/0/relu/1"}, {MODULE: "a"}, {"pkg.whence.call": "1"}])
def test_v602_provenance_changed(tmp_path, change):
    before = [{**ONE, "pkg.whence.call": "0"}, origin("a", "a.b/0/relu/1")]
    assert after(tmp_path, chain(*before), chain({**before[0], **change}, before[1])) == {"V602": ["n0"]}


def test_v602_and_v604_allow_unattributed_only_if_an_old_node_was(tmp_path):
    unknown = {CONFIDENCE: "unattributed"}
    for nodes, code, subject in ((fused(unknown), "V604", "fused"), ([node("Relu", ["x"], "v1", "n1", unknown)], "V602", "n1")):
        assert subject in after(tmp_path, chain(ONE, TWO), nodes)[code]
        assert after(tmp_path, chain(unknown, TWO), nodes) == {}


def test_v602_allows_a_node_that_absorbed_another(tmp_path):
    before = chain(ONE, TWO)
    absorbing = node("Relu", ["x"], "v1", "n1", BOTH)
    assert after(tmp_path, before, [absorbing]) == {}


def test_v602_a_fused_node_omits_conflicting_values(tmp_path):
    before = chain({**ONE, "pkg.whence.call": "1"}, {**TWO, "pkg.whence.call": "2"})
    assert after(tmp_path, before, [node("Relu", ["x"], "v1", "n1", BOTH)]) == {}
    other = {**BOTH, "pkg.whence.call": "3"}
    assert "n1" in after(tmp_path, before, [node("Relu", ["x"], "v1", "n1", other)]).get("V602", [])


@pytest.mark.parametrize("weaker", ["matched", "inferred", "ancestor"])
def test_v603_confidence_raised(tmp_path, weaker):
    before = chain(ONE, {**TWO, CONFIDENCE: weaker})
    assert after(tmp_path, before, fused(BOTH)) == {"V603": ["fused"]}
    assert after(tmp_path, before, chain(ONE, TWO)) == {"V603": ["n1"]}
    assert after(tmp_path, before, fused({**BOTH, CONFIDENCE: weaker})) == {}


def test_v604_provenance_not_joined(tmp_path):
    assert after(tmp_path, chain(ONE, TWO), fused(TWO)) == {"V604": ["fused"]}


def test_v605_module_is_not_the_ancestor(tmp_path):
    assert after(tmp_path, chain(ONE, TWO), fused({**BOTH, MODULE: ""})) == {"V605": ["fused"]}


def test_v606_provenance_invented(tmp_path):
    new = node("Cast", ["v1"], "y", "new", origin("a.b", "a.b/0/to/0"), to=1)
    assert after(tmp_path, chain(ONE, TWO), [*chain(ONE, TWO), new])["V606"] == ["new"]
    new = node("Cast", ["v1"], "y", "new", {**known("a.casts", "ancestor"), RULE: "inserted"}, to=1)
    assert after(tmp_path, chain(ONE, TWO), [*chain(ONE, TWO), new]) == {"V606": ["new"]}


def test_v607_model_keys_lost(tmp_path):
    keys = {"pkg.whence.annotated": "1", "of.another": "2"}
    assert after(tmp_path, chain(ONE), chain(ONE), keys, {}) == {"V607": ["the model"]}
    assert after(tmp_path, chain(ONE), chain(ONE), keys, keys) == {}
    assert after(tmp_path, chain(ONE), chain(ONE), keys, {**keys, "pkg.whence.annotated": "2"}) == {"V607": ["the model"]}


RULE = "pkg.whence.rule"
PRODUCT = origin("fc", "fc/0/linear/0", op="3", call="0")


def product(metadata: dict) -> list:
    return [node("Gemm", ["x", "w", "b"], "y", "product", metadata)]


def split(first: dict, second: dict) -> list:
    return [node("MatMul", ["x", "w"], "t", "m", first), node("Add", ["t", "b"], "y", "s", second)]


def without(metadata: dict, key: str) -> dict:
    return {name: value for name, value in metadata.items() if name != key}


def test_each_part_of_a_split_node_needs_all_its_metadata(tmp_path):
    assert after(tmp_path, product(PRODUCT), split(PRODUCT, PRODUCT)) == {}
    for wrong in (without(PRODUCT, ID), {**PRODUCT, MODULE: ""}, {CONFIDENCE: "unattributed"}, {**PRODUCT, CONFIDENCE: "matched"},
                  {**PRODUCT, "pkg.whence.call": "1"}, {**PRODUCT, "pkg.whence.op": "fused:3"}):
        assert after(tmp_path, product(PRODUCT), split(PRODUCT, wrong)) == {"V604": ["s"]}
        assert after(tmp_path, product(PRODUCT), split(wrong, PRODUCT)) == {"V604": ["m"]}


def product_keys(names: str) -> dict:
    """Returns the metadata of a node that replaces the products of these modules."""
    modules, ids = [*names], [f"{name}/0/linear/0" for name in names]
    numbers = ",".join(str("qkv".index(name)) for name in names)
    if len(names) == 1:
        return origin(names, ids[0], op=numbers)
    return origin("", json.dumps(ids, separators=(",", ":")), modules=json.dumps(modules, separators=(",", ":")), op=f"fused:{numbers}")


def test_each_of_several_new_nodes_needs_all_the_metadata(tmp_path):
    def joined(first: dict, second: dict) -> list:
        parts = helper.make_node("Split", ["t"], ["q", "k", "v"], name="parts")
        for key, value in second.items():
            add_key(parts, key, value)
        return [node("MatMul", ["x", "wqkv"], "t", "all", first), parts, node("Sum", ["q", "k", "v"], "y", "sum", ONE)]

    before = [*(node("MatMul", ["x", f"w{name}"], name, name, product_keys(name)) for name in "qkv"),
              node("Sum", ["q", "k", "v"], "y", "sum", ONE)]
    assert after(tmp_path, before, joined(product_keys("qkv"), product_keys("qkv"))) == {}
    assert after(tmp_path, before, joined(product_keys("q"), product_keys("qkv"))) == {"V604": ["all"]}
    assert after(tmp_path, before, joined(product_keys("qkv"), product_keys("v"))) == {"V604": ["parts"]}


@pytest.mark.parametrize("change", [{"op": "3"}, {"op": "fused:3,4,5"}, {"op": "fused:4,3"}, {"op": "shared:3,4"}, {"op": None},
                                    {"call": "1"}, {"id": '["a.b/0/relu/0","a.c/0/relu/0","d/0/relu/0"]'}])
def test_v604_checks_operations_single_values_and_ids(tmp_path, change):
    before = chain({**ONE, "pkg.whence.op": "3", "pkg.whence.call": "1"}, {**TWO, "pkg.whence.op": "4", "pkg.whence.call": "2"})
    other = node("Relu", ["v1"], "y", "other", origin("d", "d/0/relu/0", op="5"))
    right = {**BOTH, "pkg.whence.op": "fused:3,4"}
    assert after(tmp_path, [*before, other], [*fused(right), other]) == {}
    changed = {**right, **{f"pkg.whence.{key}": value for key, value in change.items()}}
    assert after(tmp_path, [*before, other], [*fused({key: value for key, value in changed.items() if value}), other]) == {
        "V604": ["fused"]}


def test_an_unattributed_part_limits_a_fused_node(tmp_path):
    unknown = {CONFIDENCE: "unattributed"}
    assert after(tmp_path, chain(ONE, unknown), fused(ONE)) == {"V603": ["fused"]}
    assert after(tmp_path, chain(ONE, unknown), fused(unknown)) == {}


def test_the_metadata_of_merged_equal_nodes_is_joined(tmp_path):
    def twins(reads: str, metadata: dict, *more) -> list:
        return [node("Relu", ["x"], "v0", "n0", metadata), *more, node("Add", ["v0", reads], "y", "sum", PRODUCT)]

    before = twins("v1", ONE, node("Relu", ["x"], "v1", "n1", TWO))
    assert after(tmp_path, before, twins("v0", BOTH)) == {}
    assert after(tmp_path, before, twins("v0", ONE)) == {"V604": ["n0"]}
    assert after(tmp_path, twins("v0", ONE, node("Relu", ["x"], "dead", "n1", TWO)), twins("v0", ONE)) == {}


def test_rearrangements_may_disappear(tmp_path):
    def around(*middle, reads: str = "v0") -> list:
        return [*chain(ONE), *middle, node("Exp", [reads], "y", "last", PRODUCT)]

    cast = node("Cast", ["v0"], "c", "cast", TWO, to=1)
    transposes = [node("Transpose", ["v0"], "t", "t1", TWO), node("Transpose", ["t"], "u", "t2", TWO)]
    assert after(tmp_path, around(cast, reads="c"), around()) == {}
    assert after(tmp_path, around(*transposes, reads="u"), around()) == {}
    assert after(tmp_path, around(node("Neg", ["v0"], "c", "neg", TWO), reads="c"), around()) == {"V604": ["last"]}


def test_v602_checks_every_entry_of_a_kept_node(tmp_path):
    keys = {**ONE, "namespace": "Net/a.b"}
    for changed in ({**keys, CONFIDENCE: "inferred"}, ONE, {**keys, "namespace": "Net"}, {**BOTH, "namespace": "Net/a.b"},
                    without(keys, CONFIDENCE)):
        assert after(tmp_path, chain(keys, TWO), chain(changed, TWO))["V602"] == ["n0"]
    assert after(tmp_path, chain(keys, TWO), chain({**keys, "of.another": "1"}, TWO)) == {}


INSERTED = {**known("a.b", "inferred"), RULE: "inserted"}


@pytest.mark.parametrize("change, code", [
    ({ID: "a.b/0/relu/0"}, "V608"), ({RULE: "carried"}, "V608"), ({"pkg.whence.op": "3"}, "V608"),
    ({CONFIDENCE: "exact"}, "V603"), ({CONFIDENCE: "matched"}, "V603"), ({MODULE: "a"}, "V603")])
def test_v608_inserted_claims_too_much(tmp_path, change, code):
    """The inserted node is before an unchanged node, or after it; then it computes that node's former output."""
    def edits(metadata: dict) -> list:
        return [[node("Cast", ["x"], "c", "new", metadata, to=1), node("Relu", ["c"], "v0", "n0", ONE), *chain(ONE, TWO)[1:]],
                [node("Relu", ["x"], "c", "n0", ONE), node("Cast", ["c"], "v0", "new", metadata, to=1), *chain(ONE, TWO)[1:]]]

    for right, wrong in zip(edits(INSERTED), edits({**INSERTED, **change}), strict=True):
        assert after(tmp_path, chain(ONE, TWO), right) == {}
        assert after(tmp_path, chain(ONE, TWO), wrong) == {code: ["new"]}


def test_v609_entries_of_one_node(tmp_path):
    def runtime_node(metadata: dict) -> list:
        return [node("FusedRelu", ["x"], "v1", "fused", metadata, domain="com.microsoft")]

    def found(before: list, nodes: list) -> list | None:
        return after(tmp_path, before, nodes).get("V609")

    named = {**BOTH, "pkg.whence.operator": "com.microsoft::FusedRelu"}
    assert found(chain(ONE, TWO), runtime_node(named)) is None
    assert found(chain(ONE, TWO), runtime_node(BOTH)) == ["fused"]
    assert found(chain(ONE, TWO), runtime_node({**named, "pkg.whence.operator": "com.microsoft::Other"})) == ["fused"]
    before = chain({**ONE, "pkg.whence.original_name": "n"}, TWO)
    assert found(before, fused({**BOTH, "pkg.whence.original_name": "n"})) == ["fused"]
    assert found(before, before) is None


@pytest.mark.parametrize("change", [{ID: '["a.b/0/relu/0", "a.c/0/relu/0"]'}, {"pkg.whence.modules": '["a.b","a.c", "a.b"]'},
                                    {"pkg.whence.modules": '["a.b","a.c","a.b"]'},
                                    {ID: '["a.b/0/relu/0","a.c/0/relu/0","a.c/0/relu/0"]'}])
def test_v610_malformed_set(tmp_path, change):
    assert after(tmp_path, chain(ONE, TWO), fused({**BOTH, **change})) == {"V610": ["fused"]}
    assert after(tmp_path, chain({**BOTH, **change}), chain({**BOTH, **change})) == {}


def test_a_tool_that_renames_everything_has_no_finding(tmp_path):
    before = [*chain(ONE, TWO), node("Exp", ["v1"], "y", "n2", PRODUCT)]
    renamed = [node("Relu", ["x"], "r0", "a", ONE), node("Relu", ["r0"], "r1", "b", TWO), node("Exp", ["r1"], "p", "c", PRODUCT),
               node("Cast", ["p"], "y", "d", {**known("fc", "inferred"), RULE: "inserted"}, to=1)]
    assert after(tmp_path, before, renamed) == {}


def test_findings_on_a_tool_have_a_rule_and_a_remedy(tmp_path):
    paths = [model(chain(metadata), tmp_path / name) for metadata, name in ((ONE, "a.onnx"), ({}, "b.onnx"))]
    result = command.run("validate", paths[1], "--conformance", paths[0], "--json", code=1)
    finding, = json.loads(result.stdout)["findings"]
    assert "(rules 1 and 6)" in finding["summary"] and finding["remedy"] and "a.b" in finding["items"][0]["detail"]


def test_allow_takes_codes_and_names(tmp_path):
    path = model([node("Relu", ["x"], "y")], tmp_path / "m.onnx")
    for word in ["V101", "node_name_empty"]:
        report = command.run_json("validate", path, "--allow", word)
        assert [(finding["code"], finding["allowed"]) for finding in report["findings"]] == [("V101", True)]
    assert "E0101" in command.run("validate", path, "--allow", "V999", code=2).stderr


def test_every_code_has_a_test():
    """Every code in the help must have a test in this folder or, if it needs a checkpoint, in derivation/."""
    listed = set(re.findall(r"\bV\d{3}\b", command.run("validate", "--help").stdout))
    files = [file for name in ("validate", "derivation") for file in (command.ROOT / "tests" / name).glob("test_*.py")]
    tested = set(re.findall(r"def test_v(\d{3})", "".join(file.read_text() for file in files)))
    assert len(listed) > 10
    assert {code for code in listed} >= {"V101", "V501"}
    assert {code[1:] for code in listed} - tested == set()
