"""Writes binary and large seeds of the fuzz targets, one folder per target: make_seeds.py FOLDER [WHENCE].

The seeds come from the models below and the archives of tests/torch_versions. The command WHENCE annotates some of them
and writes the files that match the targets' valid model. Small text seeds are in seeds/. A seed is useful if it reaches
code that no other seed reaches.
"""

import io
import json
import subprocess
import sys
import zipfile
from pathlib import Path

import numpy
import onnx

ROOT = Path(__file__).resolve().parents[2]
FIXTURES = ROOT / "tests" / "torch_versions" / "fixtures" / "2.13.0"

# Textual ONNX (onnx.parser), by its special feature.
MODELS = {
    "chain": """
        <ir_version: 10, opset_import: ["" : 20]>
        g (float[N,4] x) => (float[N,4] y) <float[4,4] w = {1,2,3,4,5,6,7,8,9,10,11,12,13,14,15,16}, float[4] b = {1,2,3,4}> {
            a = MatMul(x, w)
            c = Add(a, b)
            d = Relu(c)
            e = MatMul(d, w)
            y = Softmax <axis = -1> (e)
        }""",
    "control_flow": """
        <ir_version: 10, opset_import: ["" : 20]>
        g (float[2] x, bool t, int64 n) => (float[2] y, float[2] z) {
            y = If (t) <then_branch = a () => (float[2] p) { p = Relu(x) },
                        else_branch = b () => (float[2] q) { r = Neg(x)  q = Relu(r) }>
            z = Loop (n, t, x) <body = c (int64 i, bool k, float[2] s) => (bool m, float[2] u) {
                m = Identity(k)
                u = Add(s, x) }>
        }""",
    "functions": """
        <ir_version: 10, opset_import: ["" : 20, "local" : 1]>
        g (float[2,4] x) => (float[2,4] y) {
            a = local.block <alpha = 0.5> (x)
            y = local.block <alpha = 0.5> (a)
        }
        <domain: "local", opset_import: ["" : 20, "local" : 1]>
        block <alpha> (x) => (y) { z = local.inner(x)  y = LeakyRelu <alpha : float = @alpha> (z) }
        <domain: "local", opset_import: ["" : 20]>
        inner (x) => (y) { y = Exp(x) }""",
    "quantized": """
        <ir_version: 8, opset_import: ["" : 17, "com.microsoft" : 1]>
        g (float[1,4] x) => (float[1,2] y) <int8[4,2] w = {1,2,3,4,5,6,7,8}, float s = {0.5}, int8 p = {0}> {
            q = QuantizeLinear(x, s, p)
            d = DequantizeLinear(q, s, p)
            v = DequantizeLinear(w, s, p)
            m = MatMul(d, v)
            y = com.microsoft.Gelu(m)
        }""",
}
CONVERTERS = """
    <ir_version: 10, opset_import: ["" : 20, "whence.aten" : 1]>
    g (float x) => (float y) { y = Identity(x) }
    <domain: "whence.aten", opset_import: ["" : 18]>
    relu (x) => (y) { z = Neg(x)  y = Relu(z) }
    <domain: "whence.aten", opset_import: ["" : 20]>
    linear <alpha> (x, w, b) => (y) { y = Gemm <transB = 1> (x, w, b) }"""


def add_exporter_names(model: onnx.ModelProto) -> onnx.ModelProto:
    """Adds the node names and metadata of PyTorch's exporters, which annotate reads."""
    for i, node in enumerate(model.graph.node):
        node.name = f"/encoder/layer.{i // 2}/{node.op_type}"
        scopes = ["", "encoder", f"encoder.layer.{i // 2}", node.op_type]
        node.metadata_props.add(key="pkg.torch.onnx.name_scopes", value=repr(scopes))
        node.metadata_props.add(key="pkg.torch.onnx.class_hierarchy", value=repr(["a.Net", "a.Enc", "a.Layer", "aten"]))
    return model


def with_external_data(model: onnx.ModelProto) -> onnx.ModelProto:
    changed = onnx.ModelProto()
    changed.CopyFrom(model)
    tensor = changed.graph.initializer[0]
    tensor.ClearField("float_data")
    tensor.data_location = onnx.TensorProto.EXTERNAL
    for key, value in {"location": "weights.bin", "offset": "0", "length": "64"}.items():
        tensor.external_data.add(key=key, value=value)
    return changed


def onnx_files(folder: Path, whence: str) -> dict[str, bytes]:
    """Returns files by name: from other tools, annotated by whence, and with functions."""
    models = {name: onnx.parser.parse_model(text) for name, text in MODELS.items()}
    models["named"] = add_exporter_names(onnx.parser.parse_model(MODELS["chain"]))
    models["external"] = with_external_data(models["chain"])
    files = {name: model.SerializeToString() for name, model in models.items()}
    if not whence:
        return files
    for name in ("named", "control_flow", "quantized"):
        original, annotated, with_functions = (folder / f"{name}{end}.onnx" for end in ("", ".annotated", ".functions"))
        original.write_bytes(files[name])
        subprocess.run([whence, "annotate", original, "-o", annotated, "--carry"], check=True, capture_output=True)
        files[f"{name}_annotated"] = annotated.read_bytes()
        done = subprocess.run([whence, "functions", annotated, "-o", with_functions, "--modules", "**"], capture_output=True)
        if done.returncode == 0:
            files[f"{name}_functions"] = with_functions.read_bytes()
        for path in (original, annotated, with_functions):
            path.unlink(missing_ok=True)
    return files


def archive_parts(path: Path | io.BytesIO) -> bytes:
    """Returns a .pt2 in the form of the target exported_program, without source lines, which take half of it."""
    with zipfile.ZipFile(path) as archive:
        def member(end: str) -> dict:
            return json.loads(archive.read(next(name for name in archive.namelist() if name.endswith(end))))
        parts = {"program": member("models/model.json"), "weights": member("model_weights_config.json"),
                 "constants": member("model_constants_config.json"), "dynamic": ["x:0=batch"]}
    remove_source_lines(parts["program"])
    return json.dumps(parts).encode()


def remove_source_lines(value) -> None:
    if isinstance(value, dict):
        value.pop("stack_trace", None)
        value.pop("torch_fn", None)
    for each in value.values() if isinstance(value, dict) else value if isinstance(value, list) else []:
        remove_source_lines(each)


def control_flow_archives() -> dict[str, bytes]:
    """Returns archives with operators that have subgraphs, data-dependent sizes and writes into buffers."""
    import torch
    from torch._higher_order_ops.scan import scan
    from torch._higher_order_ops.while_loop import while_loop

    class Cond(torch.nn.Module):
        def forward(self, x):
            return torch.cond(x.sum() > 0, lambda x: x.relu(), lambda x: (x + 1).neg(), (x,))

    class Loop(torch.nn.Module):
        def forward(self, x):
            return while_loop(lambda i, s: i < 3, lambda i, s: (i + 1, s * 2), (torch.tensor(0), x))[1]

    class Scan(torch.nn.Module):
        def forward(self, x):
            return scan(lambda c, r: (c + r, c * r), torch.zeros(3), x, dim=0)[1]

    class Data(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.register_buffer("count", torch.zeros(3))

        def forward(self, x):
            self.count.add_(1)
            return torch.nonzero(x > 0), x[:, 1:].reshape(-1) + x.shape[0], torch.split(x, 1, 1), self.count

    batch = {"x": {0: torch.export.Dim("n", min=2, max=64)}}
    archives = {}
    for model, shapes in ((Cond(), None), (Loop(), None), (Scan(), None), (Data(), batch)):
        stored = io.BytesIO()
        program = torch.export.export(model, (torch.rand(4, 3),), dynamic_shapes=shapes)
        torch.export.save(program, stored)
        stored.seek(0)
        archives[type(model).__name__.lower()] = archive_parts(stored)
    return archives


def zips() -> dict[str, bytes]:
    def stored(compression: int, comment: bytes = b"", large: bool = False) -> bytes:
        file = io.BytesIO()
        with zipfile.ZipFile(file, "w", compression) as archive:
            archive.comment = comment
            for name, content in (("a/x.txt", b"abc" * 20), ("a/y", b""), ("a/d/z", bytes(range(64)))):
                with archive.open(name, "w", force_zip64=large) as member:
                    member.write(content)
        return file.getvalue()

    return {"stored": stored(zipfile.ZIP_STORED), "deflated": stored(zipfile.ZIP_DEFLATED, b"a comment"),
            "zip64": stored(zipfile.ZIP_STORED, large=True)}


def arrays() -> dict[str, bytes]:
    def saved(write, *content, **named) -> bytes:
        file = io.BytesIO()
        write(file, *content, **named)
        return file.getvalue()

    matrix = numpy.arange(6, dtype=numpy.float32).reshape(2, 3)
    return {"stored": saved(numpy.savez, x=matrix, y=numpy.array(3)),
            "deflated": saved(numpy.savez_compressed, x=numpy.zeros((40, 4), numpy.int64)),
            "member": b"m" + saved(numpy.save, numpy.asfortranarray(matrix)),
            "truth": b"m" + saved(numpy.save, numpy.array([], dtype=bool))}


def checkpoints() -> dict[str, bytes]:
    """Returns safetensors files, indices after an 'i', and torch.save's pickles after a 'p'."""
    import safetensors.torch
    import torch

    def pickled(saved, **options) -> bytes:
        file = io.BytesIO()
        torch.save(saved, file, **options)
        with zipfile.ZipFile(file) as archive:
            return b"p" + archive.read(next(name for name in archive.namelist() if name.endswith("data.pkl")))

    matrix = torch.arange(6, dtype=torch.float32).reshape(2, 3)
    state = {"layer.weight": matrix, "layer.bias": torch.zeros(2), "n": torch.tensor(3)}
    layer = torch.nn.Linear(2, 2)
    index = {"metadata": {"total_size": 24}, "weight_map": {"layer.weight": "model.safetensors"}}
    return {"two": safetensors.torch.save(state), "half": safetensors.torch.save({"a": matrix.half()}, {"format": "pt"}),
            "index": b"i" + json.dumps(index).encode(), "state": pickled(state),
            "nested": pickled({"state_dict": {"a": layer.weight, "b": layer.weight.t()}, "epoch": 1.5, "args": [None, True]}),
            "module": pickled(layer), "protocol_4": pickled(state, pickle_protocol=4)}


def files_for_the_valid_model(folder: Path, whence: str) -> dict[str, dict[str, bytes]]:
    """Returns profiles and baselines of the targets' valid model, by target."""
    model = folder / "valid.onnx"
    subprocess.run([whence, "export", FIXTURES / "dynamic.pt2", "-o", model, "--annotate"], check=True,
                   capture_output=True)
    baseline = subprocess.run([whence, "validate", model, "--json"], capture_output=True).stdout
    nodes = list(onnx.load(model).graph.node)
    model.unlink()
    return {"profile_json": profiles_as_json(nodes), "profile_table": profiles_as_tables(nodes),
            "gate_files": {"baseline": baseline}}


def profiles_as_json(nodes: list) -> dict[str, bytes]:
    event = {"cat": "Session", "pid": 1, "tid": 1, "dur": 900, "ts": 0, "name": "model_run", "args": {}}
    events = [event]
    for i, node in enumerate(nodes):
        name = node.name if i % 2 else f"{node.name}/Fusion"
        events.append({**event, "cat": "Node", "ts": 10 * i, "dur": 8 + i, "name": f"{name}_kernel_time",
                       "args": {"op_name": node.op_type, "provider": "CPUExecutionProvider"}})
    inside = [event, {**events[1], "dur": 50, "args": {"op_name": "If"}}, {**events[2], "ts": 5}]
    memory = {"output_size": "64", "mem_bytes_in_use": "128", "mem_in_use_peak": "256"}
    two = [event, {**events[1], "args": memory}, {**event, "ts": 1000}, {**events[2], "ts": 1010, "tid": 2},
           {**events[1], "ts": 1012}]
    first, second, last = nodes[0].name, nodes[1].name, nodes[-1].name
    names = [f"{first} + PWN({second})", f"{{ForeignNode[{first}...{last}]}}", f"{second} copy",
             f"Reformatting CopyNode for Input Tensor 0 to {last}", f"{second}_myl1_2"]
    tensorrt = [{"count": 2}, *({"name": name, "timeMs": 1.5 * i} for i, name in enumerate(names))]
    layers = {"Layers": ["other", {"Name": "layer0", "LayerType": "kgen",
                                   "Metadata": f"[ONNX Layer: {first}]\x1f[ONNX Layer: {last} | Local Function: f]"}]}
    trace = {"schema_version": 2, "subgraph_traces": [{"op_mappings": [
        {"dst_name": "layer0", "dst_qnn_op_type": "Conv2d", "sources": [{"name": first, "type": "OP"}],
         "original_sources": [{"name": last, "type": "OP"}]}]}]}
    compiled = {**event, "cat": "Node", "ts": 5, "dur": 50, "name": "Mine_sub_0_0_kernel_time",
                "args": {"op_name": "sub_0", "provider": "Mine"}}
    parts = [{**compiled, "cat": "Kernel", "dur": 40, "name": name, "args": {"parent_ort_event_name": compiled["name"]}}
             for name in (f"OV::{first}", "OV::own_7")]
    contents = {"whole": events, "body": inside, "two": two, "tensorrt": tensorrt, "layers": layers, "trace": trace,
                "compiled": [event, compiled, *parts],
                "providers": [{"provider": "Mine", "nodes": [{"name": first, "op_type": "Conv"}]}]}
    return {name: json.dumps(content).encode() for name, content in contents.items()}


def profiles_as_tables(nodes: list) -> dict[str, bytes]:
    first, second, last = nodes[0].name, nodes[1].name, nodes[-1].output[0]

    def layer(number: int, name: str, time: object, names: str) -> str:
        return (f'<layer id="{number}" name="{name}" type="MatMul"><data execOrder="{number}" execTimeMcs="{time}" '
                f'originalLayersNames="{names}"/></layer>')

    layers = [layer(0, first, 5, f"{first},{second},"), layer(1, "MVN_7", 7, "MVN_7"), layer(2, last, "not_executed", last)]
    edges = "".join(f'<edge from-layer="{i}" from-port="0" to-layer="{i + 1}" to-port="0"/>' for i in (0, 1))
    xml = (f'<?xml version="1.0"?>\n<net name="n" version="11"><layers>{"".join(layers)}</layers>'
           f'<edges>{edges}</edges></net>')
    counters = ("layerName;execStatus;layerType;execType;realTime (ms);cpuTime (ms)\n"
                f"{first};Status.EXECUTED;MatMul;ref;0.5;0.5\n{last};EXECUTED;Add;ref;1.25;0.5\nTotal;;;;1.75;1\n")
    memory = ("#name,input_sizes,initializers_sizes,total_dynamic_sizes,total_temp_allocations\n"
              f"{first}_1234567,1,2,3,4\n{second}_89,1,2,3,4\n")
    qnn = ("Msg Timestamp,Message,Time,Unit of Measurement,Timing Source,Event Level,Event Identifier,ONNX Source Ops\n"
           f'0,NODE,5,CYCLES,BACKEND,SUB-EVENT,"a:OpId_1 (cycles)",{first};{second}\n'
           f"0,NODE,6,CYCLES,BACKEND,SUB-EVENT,a:OpId_1 (cycles),{first}\n")
    stack = "{'aten_add': {'L__self__': ('', 'Net'), 'L__self__b': ('body', \"it's\")}}"
    executorch = ("\tevent_block_name\tevent_name\traw\tavg (ms)\tmodule_hierarchy\tis_delegated_op\tstart_time\n"
                  f"0\tExecute\tnative_call_add.out\t[0.5, 2e-05]\t0.2\t{stack}\tFalse\t[10, 30]\n"
                  "1\tExecute\tAdd #1\t[None]\t\t{}\tTrue\t\n"
                  "2\tExecute\tMethod::execute\t[0.6, 0.1]\t0.3\t{}\tFalse\t[9, 29]\n")
    contents = {"openvino": xml, "counters": counters, "memory": memory, "qnn": qnn, "executorch": executorch}
    return {name: content.encode() for name, content in contents.items()}


def write(folder: Path, target: str, files: dict[str, bytes]) -> None:
    (folder / target).mkdir(parents=True, exist_ok=True)
    for name, content in files.items():
        (folder / target / name).write_bytes(content)


def main(folder: Path, whence: str = "") -> None:
    folder.mkdir(parents=True, exist_ok=True)
    models = onnx_files(folder, whence)
    for target in ("onnx", "views", "model_functions", "annotate_with_source"):
        write(folder, target, models)
    write(folder, "converters", {"two": onnx.parser.parse_model(CONVERTERS).SerializeToString()})
    write(folder, "zip", zips())
    write(folder, "npz", arrays())
    write(folder, "checkpoint", checkpoints())
    programs = {name: archive_parts(FIXTURES / f"{name}.pt2") for name in ("dynamic", "static")}
    write(folder, "exported_program", programs | control_flow_archives())
    sidecars = [FIXTURES / "recorded.whence.json", *(ROOT / "schema" / "fixtures").glob("*/*.whence.json")]
    if whence:
        for target, files in files_for_the_valid_model(folder, whence).items():
            write(folder, target, files)
    write(folder, "sidecar", {path.name: path.read_bytes() for path in sidecars})


if __name__ == "__main__":
    main(Path(sys.argv[1]), *sys.argv[2:3])
