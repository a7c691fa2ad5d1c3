"""The origin that a node's metadata states, and the origin of a node that replaces several others."""

from __future__ import annotations

import ast
import functools
import json
import os
from collections.abc import Iterable, Mapping, MutableMapping, Sequence, Set
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

from ..base.node_keys import modules_in, operations_in
from .reports import CONFIDENCES

_MODULE, _MODULES, _PRIMARY = "pkg.whence.module", "pkg.whence.modules", "pkg.whence.primary"
_CONFIDENCE, _RULE, _OPERATOR = "pkg.whence.confidence", "pkg.whence.rule", "pkg.whence.operator"
_CALLED_MODULE = "{module}"  # in the functions that `whence functions` writes
_STAMP, _ID, _SOURCE = "pkg.whence.op", "pkg.whence.id", "pkg.whence.source"
_TORCH_SCOPES, _BUILDER_SCOPES = "pkg.torch.onnx.name_scopes", "pkg.onnxscript.name_scopes"
_EXPORTER_KEYS = ("namespace", "pkg.torch.onnx.", "pkg.onnxscript.")
_CAPTURED_ROOT, _UNKNOWN = "_export_root", "_empty_nn_module_stack"
_MATCHED, _INFERRED, _ANCESTOR = map(CONFIDENCES.index, ("matched", "inferred", "ancestor"))

_NORM_STEPS = ("Pow", "ReduceMean", "Sqrt", "Rsqrt", "Reciprocal")


@dataclass(frozen=True)
class Origin:
    """Where a node comes from, as its metadata states it."""

    modules: tuple[str, ...]          # qualified names, "" for the root; never empty
    primary: str                      # the module of the main operation
    confidence: int                   # an index of CONFIDENCES
    operations: tuple[int, ...] = ()  # numbers of recorded operations
    is_shared: bool = False           # the node is a helper of these operations
    ids: tuple[str, ...] = ()         # identities of recorded operations
    source: str = ""
    by_whence: bool = False           # read from whence's keys, not from the exporter's


INSIDE_ROOT = Origin(("",), "", _ANCESTOR)


def common_module(modules: Iterable[str]) -> str:
    """Returns the lowest common ancestor of qualified names."""
    paths = [module.split(".") if module else [] for module in modules]
    return ".".join(os.path.commonprefix(paths)) if paths else ""


def read(metadata: Mapping[str, str]) -> Origin | None:
    """Returns the origin in whence's keys, else in the exporter's; None if no key names a module."""
    if is_template(metadata):
        return None
    if _MODULE in metadata:
        return _read_whence(metadata)
    if _CONFIDENCE in metadata:
        return None
    module = _exporter_module(metadata)
    return None if module is None else Origin((module,), module, _INFERRED)


def is_template(metadata: Mapping[str, str]) -> bool:
    """Returns true for a node of a function of `whence functions`, whose modules are relative to that of the call."""
    return any(_CALLED_MODULE in metadata.get(key, "") for key in (_MODULE, _TORCH_SCOPES, _BUILDER_SCOPES))


def is_call(metadata: Mapping[str, str]) -> bool:
    """Returns true for a call of such a function."""
    return metadata.get(_RULE) == "function"


def fill_template(metadata: MutableMapping[str, str], domain: str, op_type: str, call: Mapping[str, str]) -> None:
    """Writes the modules of a node that was in a function, and replaced a call with the metadata ``call``, which inliners
    may have copied to it. Drops the keys that may differ from call to call. If the function states nothing, the node is
    somewhere inside the module of the call."""
    if metadata.get(_MODULE) == call.get(_MODULE):
        restore({}, metadata)
    for key, value in list(metadata.items()):
        if key.startswith(_EXPORTER_KEYS) and call.get(key) == value:
            del metadata[key]
    of_call = _read_whence(call)
    module = of_call.primary
    for key, value in list(metadata.items()):
        if not module:
            value = value.replace(f"{_CALLED_MODULE}.", "")
        metadata[key] = value.replace(_CALLED_MODULE, module)
    if _MODULE in metadata:
        origin = _read_whence(metadata)
        word = max(origin.confidence, of_call.confidence, _MATCHED)
        write(replace(origin, confidence=word, operations=(), ids=(), source=""), metadata, domain, op_type, "kept")
    elif read(metadata) is None:
        write(Origin((module,), module, max(_ANCESTOR, of_call.confidence)), metadata, domain, op_type, "kept")


def is_unknown(metadata: Mapping[str, str]) -> bool:
    """Returns true if no key names a module, and annotate did not look for one."""
    return not is_template(metadata) and _CONFIDENCE not in metadata and read(metadata) is None


def _read_whence(metadata: Mapping[str, str]) -> Origin:
    module = metadata[_MODULE]
    word = metadata.get(_CONFIDENCE, "inferred")
    operations, is_shared = operations_in(metadata)
    identity = metadata.get(_ID, "")
    ids = tuple(_strings(identity)) or ((identity,) if identity else ())
    return Origin(modules_in(metadata), metadata.get(_PRIMARY, module),
                  CONFIDENCES.index(word) if word in CONFIDENCES else _INFERRED, operations, is_shared, ids,
                  metadata.get(_SOURCE, ""), by_whence=True)


def _strings(text: str) -> list[str]:
    """Returns the texts of a JSON array; nothing for other text."""
    try:
        entries = json.loads(text)
    except ValueError:
        return []
    return [entry for entry in entries if isinstance(entry, str)] if isinstance(entries, list) else []


def _exporter_module(metadata: Mapping[str, str]) -> str | None:
    names = _names(metadata.get(_TORCH_SCOPES, ""))[:-1]  # the last one is the operation
    if names:
        modules = [name for name in names if name != _CAPTURED_ROOT and not name.startswith(_UNKNOWN)]
        return modules[-1].removeprefix(f"{_CAPTURED_ROOT}.") if modules else None
    relative = _names(metadata.get(_BUILDER_SCOPES, ""))
    return ".".join(filter(None, relative)) if relative else None


@functools.lru_cache(maxsize=4096)  # the nodes of a module have the same text
def _names(text: str) -> tuple[str, ...]:
    try:
        names = ast.literal_eval(text)
    except (ValueError, SyntaxError):
        return ()
    return tuple(map(str, names)) if isinstance(names, list) else ()


class Source(NamedTuple):
    """A node that another one replaces."""

    op_type: str
    origin: Origin
    exporter_keys: dict[str, str]
    computed_value: bool  # the node computed the replaced value


def source_of(node: Any, computed_value: bool) -> Source | None:
    """Returns None for a node without an origin."""
    origin = read(node.metadata_props)
    exporter_keys = {key: value for key, value in node.metadata_props.items() if key.startswith(_EXPORTER_KEYS)}
    return None if origin is None else Source(node.op_type, origin, exporter_keys, computed_value)


def sources_of(nodes: Sequence[Any], producer: Any, copies: Mapping[Any, Sequence[Source]]) -> list[Source]:
    """Returns the nodes with an origin. They are ``inferred`` at most if another one, which is no Constant, has none: it
    may be of a module that they do not name. ``producer`` computed the replaced value. ``copies``: the equal nodes that
    were merged into a node. Of these, only those in the modules of the other nodes were replaced here: a mask that the
    layers share vanishes with the last of them."""
    sources = {node: source_of(node, node is producer) for node in nodes}
    own = {module for node, source in sources.items() if source is not None and node not in copies
           for module in source.origin.modules}
    for node, merged in copies.items():
        near = [copy for copy in merged if own.intersection(copy.origin.modules)]
        if near and (source := sources[node]) is not None:
            sources[node] = source._replace(origin=merge(node.op_type, near))
    known = [source for source in sources.values() if source is not None]
    if any(source.op_type != "Constant" for source in known):  # exporters write equal constants of several modules once
        known = [source for source in known if source.op_type != "Constant"]
    if all(source is not None or node.op_type == "Constant" for node, source in sources.items()):
        return known
    return [source._replace(origin=at_most(source.origin, _INFERRED)) for source in known]


def at_most(origin: Origin, confidence: int) -> Origin:
    return replace(origin, confidence=max(origin.confidence, confidence))


def merge(op_type: str, sources: Sequence[Source], kinds: Set[str] = frozenset()) -> Origin:
    """Returns the origin of a node of ``op_type`` that, with nodes of these ``kinds``, replaces ``sources``: at least one."""
    every = [source.origin for source in sources]
    main = [source.origin if kind_of(op_type) or kind_of(source.op_type) not in kinds else _without_main(source.origin)
            for source in _main_sources(op_type, sources)]
    return Origin(_distinct(module for origin in every for module in origin.modules),
                  common_module(origin.primary for origin in main), max(_MATCHED, *(origin.confidence for origin in every)),
                  tuple(sorted({number for origin in every for number in origin.operations})),
                  all(origin.is_shared for origin in every), _distinct(identity for origin in every for identity in origin.ids), main[-1].source,
                  any(origin.by_whence for origin in every))


def inferred_from(neighbours: Sequence[Origin], inside: bool = False) -> Origin:
    """Returns the origin of a node that only its neighbours, at least one, show: no surer than the weakest of them.
    ``inside``: only their module as an enclosing one."""
    module = common_module(origin.primary for origin in neighbours)
    agree = not inside and all(origin.primary == module for origin in neighbours)
    word = max(_INFERRED if agree else _ANCESTOR, *(origin.confidence for origin in neighbours))
    return Origin((module,), module, word)


def _without_main(origin: Origin) -> Origin:
    """Returns the origin of a node that does the rest of a fused node, whose main operation another node does."""
    rest = [module for module in origin.modules if module != origin.primary]
    return replace(origin, primary=common_module(rest)) if rest else origin


def _distinct(items: Iterable[str]) -> tuple[str, ...]:
    return tuple(dict.fromkeys(items))


def _main_sources(op_type: str, sources: Sequence[Source]) -> list[Source]:
    """Returns the nodes that do what an operator of ``op_type`` is named after, by the rules of
    annotator/operators/main_operation.cpp; if there are none, the nodes that computed the replaced values."""
    kind = kind_of(op_type)
    for main in (kind, {"attention": "softmax", "norm": "norm step"}.get(kind, "")):
        if main and (named := [source for source in sources if kind_of(source.op_type) == main]):
            return named
    return [source for source in sources if source.computed_value] or [sources[-1]]


def kind_of(op_type: str) -> str:
    if "Attention" in op_type or op_type == "SDPA":
        return "attention"
    if "Softmax" in op_type:
        return "softmax"
    if "Norm" in op_type and not op_type.startswith("Random"):
        return "norm"
    if "Conv" in op_type and "Convert" not in op_type or "MatMul" in op_type or "Gemm" in op_type or op_type == "Einsum":
        return "product"
    return "norm step" if op_type in _NORM_STEPS else ""


def whence_keys(metadata: Mapping[str, str]) -> dict[str, str]:
    return {key: value for key, value in metadata.items() if key.startswith("pkg.whence.")}


def restore(keys: Mapping[str, str], metadata: MutableMapping[str, str]) -> None:
    """Replaces whence's keys with ``keys``."""
    for key in whence_keys(metadata):
        del metadata[key]
    metadata.update(keys)


def write(origin: Origin, metadata: MutableMapping[str, str], domain: str, op_type: str, rule: str) -> None:
    """Writes whence's keys of an origin, in place of those that the node has."""
    restore({}, metadata)
    metadata[_MODULE] = common_module(origin.modules)
    if len(origin.modules) > 1:
        metadata[_MODULES] = json.dumps(list(origin.modules))
        metadata[_PRIMARY] = origin.primary
    metadata[_CONFIDENCE], metadata[_RULE] = CONFIDENCES[origin.confidence], rule
    if domain not in ("", "ai.onnx"):
        metadata[_OPERATOR] = f"{domain}::{op_type}"
    if origin.operations:
        numbers = ",".join(map(str, origin.operations))
        kind = "shared:" if origin.is_shared else "fused:" if len(origin.operations) > 1 else ""
        metadata[_STAMP] = kind + numbers
    if origin.ids:
        metadata[_ID] = origin.ids[0] if len(origin.ids) == 1 else json.dumps(list(origin.ids))
    if origin.source:
        metadata[_SOURCE] = origin.source
