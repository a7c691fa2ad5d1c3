"""Tests each rule of docs/metadata-spec.md that samples/adopt/provenance.py implements, with values by hand."""

import importlib.util

import onnx
import onnx_ir as ir
import pytest

import command

SPEC = importlib.util.spec_from_file_location("provenance", command.ROOT / "samples" / "adopt" / "provenance.py")
provenance = importlib.util.module_from_spec(SPEC)
SPEC.loader.exec_module(provenance)


def keys(**named: str) -> dict[str, str]:
    return {f"pkg.whence.{name}": value for name, value in named.items()}


CONV = keys(module="a.conv", id="a.conv/0/convolution/0", call="0", source="net.py:8 forward", confidence="exact", op="3")
NORM = keys(module="a.bn", id="a.bn/0/batch_norm/0", call="0", source="net.py:9 forward", confidence="matched", op="4")


def test_fused_nodes_are_joined():
    assert provenance.merge([CONV, NORM]) == keys(
        module="a", modules='["a.conv","a.bn"]', id='["a.conv/0/convolution/0","a.bn/0/batch_norm/0"]', call="0",
        confidence="matched", op="fused:3,4")


def test_merging_again_adds_nothing():
    once = provenance.merge([CONV, NORM])
    assert provenance.merge([once, NORM]) == once
    assert provenance.merge([CONV, once, keys(module="b", confidence="exact", op="shared:1,3")]) == keys(
        module="", modules='["a.conv","a.bn","b"]', id='["a.conv/0/convolution/0","a.bn/0/batch_norm/0"]',
        confidence="matched", op="shared:1,3,4")


def test_a_copy_omits_only_the_keys_for_strip():
    assert provenance.merge([{**CONV, "of.another": "x", **keys(kept="namespace", original_name="n")}]) == {**CONV, "of.another": "x"}


@pytest.mark.parametrize("modules, ancestor", [(["a.bc", "a.bd"], "a"), (["a.b", "a.b.c"], "a.b"), (["", "a"], ""),
                                               (["x", "y"], ""), (["a.b.c", "a.x.c"], "a")])
def test_the_ancestor_consists_of_complete_segments(modules, ancestor):
    merged = provenance.merge([keys(module=module, confidence="exact") for module in modules])
    assert merged["pkg.whence.module"] == ancestor


def test_a_node_with_an_unknown_part_is_unattributed():
    assert provenance.merge([CONV, {}]) == keys(confidence="unattributed") == provenance.merge([])
    assert provenance.merge([CONV, keys(module="a")])["pkg.whence.confidence"] == "ancestor"


def test_inserted_nodes_have_no_operation():
    assert provenance.inserted([CONV]) == keys(module="a.conv", call="0", source="net.py:8 forward",
                                               confidence="inferred", rule="inserted")
    assert provenance.inserted([CONV, NORM]) == keys(module="a", call="0", confidence="ancestor", rule="inserted")


def test_an_operator_of_onnx_runtime_is_recorded():
    assert provenance.merge([{**CONV, **keys(operator="x::Y")}], "com.microsoft::FusedConv") == {
        **CONV, **keys(operator="com.microsoft::FusedConv")}


@pytest.mark.parametrize("make", [lambda: onnx.helper.make_node("Relu", ["x"], ["y"]),
                                  lambda: ir.node("Relu", [None])])
def test_nodes_of_onnx_and_onnxscript_are_supported(make):
    node = make()
    provenance.write(node, {"old": "1"})
    provenance.write(node, CONV)
    assert provenance.entries(node) == CONV == provenance.merge([node])
