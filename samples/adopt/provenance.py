"""Keeps the origins of nodes in an optimiser, as whence's docs/metadata-spec.md requires. Copy this file; it needs only Python.

A node is anything with `metadata_props` (onnx.NodeProto, onnxscript's ir.Node), or a dict of its entries.
"""
import json

WORDS = ("exact", "matched", "inferred", "ancestor", "unattributed")  # strongest first
MODULE, MODULES, ID, OP, CONFIDENCE, RULE, OPERATOR = (
    "pkg.whence." + name for name in ("module", "modules", "id", "op", "confidence", "rule", "operator"))
OF_ONE_NODE = {"pkg.whence." + name for name in ("kept", "merged", "original_name", "carry")}


def entries(node) -> dict:
    """Returns the metadata of a node."""
    props = node if isinstance(node, dict) else node.metadata_props
    return dict(props) if hasattr(props, "items") else {entry.key: entry.value for entry in props}


def write(node, metadata: dict) -> None:
    """Replaces all metadata of a node with these entries."""
    if hasattr(node.metadata_props, "items"):
        node.metadata_props.clear()
        node.metadata_props.update(metadata)
    else:
        del node.metadata_props[:]
        for key, value in metadata.items():
            node.metadata_props.add(key=key, value=value)


def merge(nodes, operator: str = "") -> dict:
    """Returns the entries of a node that replaces these nodes: fused, split, copied or folded. Pass them in graph order.

    operator  the operator of the new node, "com.microsoft::FusedConv", if its domain is not ONNX's own.
    """
    sources = [entries(node) for node in nodes]
    first = sources[0] if sources else {}
    merged = {key: value for key, value in first.items() if all(source.get(key) == value for source in sources)}
    merged = {key: value for key, value in merged.items() if key not in OF_ONE_NODE | {OPERATOR}}
    confidence = max((_confidence(source) for source in sources), key=WORDS.index, default=WORDS[-1])
    if confidence == WORDS[-1]:  # one node is unknown, so the result is unknown
        return {**{key: value for key, value in merged.items() if not key.startswith("pkg.whence.")}, CONFIDENCE: confidence}
    modules = _union(source.get(MODULES) or json.dumps([source[MODULE]]) for source in sources)
    ids = _union(source[ID] if source[ID].endswith("]") else json.dumps([source[ID]]) for source in sources if ID in source)
    merged.update({MODULE: _ancestor(modules), CONFIDENCE: confidence})
    merged.update({MODULES: _array(modules)} if len(modules) > 1 else {})
    merged.update({ID: ids[0] if len(ids) == 1 else _array(ids)} if ids else {})
    merged.update({OPERATOR: operator} if operator else {})
    if OP not in merged and all(OP in source for source in sources):
        kind = "shared" if any(source[OP].startswith("shared:") for source in sources) else "fused"
        numbers = {int(number) for source in sources for number in source[OP].split(":")[-1].split(",") if number}
        merged[OP] = f"{kind}:" + ",".join(map(str, sorted(numbers)))
    return merged


def inserted(neighbours) -> dict:
    """Returns the entries of a node that the tool inserts next to these: a Cast, a Transpose, a QuantizeLinear."""
    merged = merge(neighbours)
    if merged[CONFIDENCE] == WORDS[-1]:
        return merged
    several = merged.pop(MODULES, None) is not None
    weakest = max(merged[CONFIDENCE], "ancestor" if several else "inferred", key=WORDS.index)
    return {**{key: value for key, value in merged.items() if key not in (ID, OP)}, CONFIDENCE: weakest, RULE: "inserted"}


def _confidence(source: dict) -> str:
    if MODULE not in source:
        return WORDS[-1]
    return source.get(CONFIDENCE) if source.get(CONFIDENCE) in WORDS else "ancestor"


def _union(arrays) -> list:
    return list(dict.fromkeys(name for array in arrays for name in json.loads(array)))


def _array(names: list) -> str:
    return json.dumps(names, ensure_ascii=False, separators=(",", ":"))


def _ancestor(modules: list) -> str:
    path = modules[0].split(".")
    for module in modules:
        path = [a for i, a in enumerate(path) if module.split(".")[:i + 1] == path[:i + 1]]
    return ".".join(path)
