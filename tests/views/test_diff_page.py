"""Tests the page of `whence diff --html` in a browser, and the files for Model Explorer."""

import json
import re

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper

import command
from views import browser, view_files
from views.test_model_explorer import by_id, require_graph
from views.test_report import open_page, window  # noqa: F401: a fixture

in_browser = pytest.mark.skipif(browser.missing() is not None, reason=str(browser.missing()))

WEIGHT = np.arange(16, dtype=np.float32).reshape(4, 4)


def save(nodes, path, weights):
    """Writes nodes, (operator, inputs, output, module, attributes), as a model from x to y."""
    protos = []
    for op_type, inputs, output, module, attributes in nodes:
        proto = helper.make_node(op_type, inputs, [output], name=f"/{module}/{op_type}_{output}", **attributes)
        view_files.add_keys(proto, module=module, confidence="matched", source=f"{module}.py:7 forward")
        protos.append(proto)
    graph = helper.make_graph(protos, "graph", [helper.make_tensor_value_info("x", TensorProto.FLOAT, [2, 4])],
                              [helper.make_tensor_value_info("y", TensorProto.FLOAT, [2, 4])],
                              [numpy_helper.from_array(array, name) for name, array in weights.items()])
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 18)], ir_version=10), path)
    return path


def before(path):
    """Writes two layers, each a product, a sum and an activation, and a head."""
    nodes = [("MatMul", ["x", "w0"], "p0", "net.0.dense", {}), ("Add", ["p0", "b0"], "s0", "net.0.dense", {}),
             ("LeakyRelu", ["s0"], "h0", "net.0.act", {"alpha": 0.5}),
             ("MatMul", ["h0", "w1"], "p1", "net.1.dense", {}), ("Add", ["p1", "b1"], "s1", "net.1.dense", {}),
             ("LeakyRelu", ["s1"], "h1", "net.1.act", {"alpha": 0.5}),
             ("Identity", ["h1"], "i", "drop", {}), ("Neg", ["i"], "y", "head", {})]
    return save(nodes, path, {"w0": WEIGHT, "w1": WEIGHT, "b0": WEIGHT[0], "b1": WEIGHT[0]})


def after(path):
    """Writes the same model with the first layer's product and sum as a Gemm, another weight and another slope in the
    second layer, no Identity, and a new Abs in a new module."""
    other = WEIGHT.copy()
    other[1, 2] += 3
    nodes = [("Gemm", ["x", "w0", "b0"], "s0", "net.0.dense", {}),
             ("LeakyRelu", ["s0"], "h0", "net.0.act", {"alpha": 0.5}),
             ("MatMul", ["h0", "w1"], "p1", "net.1.dense", {}), ("Add", ["p1", "b1"], "s1", "net.1.dense", {}),
             ("LeakyRelu", ["s1"], "h1", "net.1.act", {"alpha": 0.25}),
             ("Abs", ["h1"], "k", "extra", {}), ("Neg", ["k"], "y", "head", {})]
    return save(nodes, path, {"w0": WEIGHT, "w1": other, "b0": WEIGHT[0], "b1": WEIGHT[0]})


def diff_page(folder, *options, a=None, b=None):
    a, b = a or before(folder / "a.onnx"), b or after(folder / "b.onnx")
    command.run("diff", a, b, "--html", folder / "diff.html", *options)
    return folder / "diff.html"


ITEMS = """return drawing.graph.items.map((item, i) => {
  const at = drawing.items[i].querySelector('rect').getBoundingClientRect();
  return {kind: item.kind, side: item.side, text: drawing.items[i].querySelector('text').textContent,
    left: at.left, right: at.right, y: (at.top + at.bottom) / 2, look: drawing.items[i].getAttribute('class')}; });"""


def choose(window, module):  # noqa: F811
    window.run("chooseModule(moduleByPath().get(arguments[0]));", module)
    return window.run(ITEMS)


# ---- the drawing ----

@in_browser
def test_matched_nodes_are_on_one_line(window, tmp_path):  # noqa: F811
    open_page(window, diff_page(tmp_path))
    items = choose(window, "net.1.dense")
    nodes = {(each["side"], each["text"]): each for each in items if each["kind"] == "node"}
    assert nodes.keys() == {(side, text) for side in (0, 1) for text in ("MatMul", "Add")}
    for text in ("MatMul", "Add"):
        assert nodes[0, text]["y"] == nodes[1, text]["y"] and nodes[0, text]["right"] < nodes[1, text]["left"]
    assert nodes[0, "MatMul"]["y"] < nodes[0, "Add"]["y"]
    assert window.run("return document.querySelectorAll('#canvas .match').length;") == 2
    assert [text for text in window.texts("#canvas .heading")] == ["a  a.onnx", "b  b.onnx"]
    assert window.complaints() == []


@in_browser
def test_a_fused_node_is_on_the_line_of_the_last_node_it_replaced(window, tmp_path):  # noqa: F811
    open_page(window, diff_page(tmp_path))
    nodes = {each["text"]: each for each in choose(window, "net.0.dense") if each["kind"] == "node"}
    assert nodes.keys() == {"MatMul", "Add", "Gemm"}
    assert nodes["Gemm"]["y"] == nodes["Add"]["y"] > nodes["MatMul"]["y"] and nodes["Gemm"]["side"] == 1
    window.run("chooseNode(Array.from(nodes.op).findIndex((op) => data.operators[op] === 'Gemm'));")
    panel = window.run("return document.getElementById('evidence').innerText;")
    assert "not in a.onnx" in panel and "MatMul /net.0.dense/MatMul_p0" in panel and "Add /net.0.dense/Add_s0" in panel
    window.run("[...document.querySelectorAll('#evidence .link')].find((it) => it.textContent.startsWith('MatMul')).click();")
    assert "not in b.onnx" in window.run("return document.getElementById('evidence').innerText;")


@in_browser
def test_submodules_are_boxes_in_both_graphs(window, tmp_path):  # noqa: F811
    open_page(window, diff_page(tmp_path))
    boxes = {(each["side"], each["text"]): each for each in choose(window, "") if each["kind"] == "box"}
    assert boxes.keys() == {(0, "net"), (1, "net"), (0, "drop"), (1, "extra"), (0, "head"), (1, "head")}
    assert boxes[0, "net"]["y"] == boxes[1, "net"]["y"] and boxes[0, "head"]["y"] == boxes[1, "head"]["y"]
    state = {name: number for number, name in enumerate(window.run("return moduleStates;"))}
    assert f"m{state['removed']}" in boxes[0, "drop"]["look"] and f"m{state['added']}" in boxes[1, "extra"]["look"]


@in_browser
def test_a_moved_node_is_drawn_beside_its_counterpart(window, tmp_path):  # noqa: F811
    def model(name, module):
        return save([("Neg", ["x"], "h", module, {}), ("Abs", ["h"], "y", "tail", {})], tmp_path / name, {})

    open_page(window, diff_page(tmp_path, a=model("a.onnx", "old.part"), b=model("b.onnx", "new")))
    nodes = {each["side"]: each for each in choose(window, "old.part") if each["kind"] == "node"}
    assert nodes[0]["y"] == nodes[1]["y"] and "elsewhere" in nodes[1]["look"] and "elsewhere" not in nodes[0]["look"]
    assert "in new" in window.texts("#canvas .elsewhere text")
    assert window.texts("#facts .tags")[0] == "moved its nodes are now in new"
    window.run("document.querySelector('#facts .tags .link').click();")
    assert window.texts("#facts h2") == ["new"] and "from old.part" in window.texts("#facts .tags")[0]


# ---- tree, filter, search ----

def tree_rows(window):  # noqa: F811
    return window.run("return tree.rows.map((row) => row.isNode ? operatorOf(row.id) : moduleAt(row.id).path);")


@in_browser
def test_only_what_differs_is_shown_at_first(window, tmp_path):  # noqa: F811
    open_page(window, diff_page(tmp_path))
    assert tree_rows(window) == ["", "net", "net.0", "net.0.dense", "MatMul", "Add", "Gemm", "net.1", "net.1.dense",
                                 "MatMul", "net.1.act", "LeakyRelu", "drop", "Identity", "extra", "Abs"]
    window.click("#only")
    window.run("setOpen(moduleByPath().get('net.0.act'), true); refreshTree();")
    assert {"net.0.act"} <= set(tree_rows(window)) and len(tree_rows(window)) > 18
    labels = window.run("return [...document.querySelectorAll('[role=treeitem]')].map((row) => row.getAttribute('aria-label'));")
    assert labels[0] == "(root), 8 → 7 nodes, changed"
    assert "net.0.act, 1 node, equal" in labels and "extra, 0 → 1 nodes, added" in labels
    window.run("[...document.querySelectorAll('.chip')].find((chip) => chip.textContent.startsWith('equal')).click();")
    assert window.run("return document.getElementById('only').checked;")


@in_browser
def test_equal_files_have_no_difference(window, tmp_path):  # noqa: F811
    open_page(window, diff_page(tmp_path, b=before(tmp_path / "b.onnx")))
    assert window.texts("#headline") == ["8 nodes, 40 weights read, no difference"]
    assert window.run("return tree.kept.nodes.every(Boolean);")  # the filter is off
    window.click("#tab-changes")
    assert window.texts("#changes") == ["No difference."]


@in_browser
def test_search_finds_the_names_of_both_files(window, tmp_path):  # noqa: F811
    proto = onnx.load(before(tmp_path / "a.onnx"))
    proto.graph.node[7].name = "its_former_name"
    onnx.save(proto, tmp_path / "a.onnx")
    open_page(window, diff_page(tmp_path, a=tmp_path / "a.onnx", b=before(tmp_path / "b.onnx")))
    for name in ("its_former", "/head/Neg"):
        window.run("document.getElementById('search').value = '';")
        window.type("#search", name + browser.KEYS["Enter"])
        assert window.texts("#evidence h2") == ["Neg"]
        assert {"its_former_name", "/head/Neg_y"} <= set(window.texts("#evidence dd"))
    assert window.texts("#evidence .state") == ["renamed"]


@in_browser
def test_the_list_of_changes_has_attributes_and_distances(window, tmp_path):  # noqa: F811
    open_page(window, diff_page(tmp_path))
    window.click("#tab-changes")
    rows = window.texts("#changes tbody tr")
    answer = command.run_json("diff", tmp_path / "a.onnx", tmp_path / "b.onnx")
    differences = [text for node in answer["changed_nodes"] for text in node["differences"]]
    assert differences and all(any(text in row for row in rows) for text in differences)
    assert any("alpha 0.5 -> 0.25" in row for row in rows) and any("1 of 16 elements, by at most 3" in row for row in rows)
    summary = window.texts("#changes summary")
    assert [each.strip() for each in summary] == ["removed: 1 node", "added: 1 node", "fused: 3 nodes", "changed: 2 nodes"]


@in_browser
def test_another_shape_is_shown(window, tmp_path):  # noqa: F811
    """One file has another batch size: nothing else differs, so whence diff reports no change."""
    for name, batch in (("a.onnx", 2), ("b.onnx", 5)):
        proto = onnx.load(before(tmp_path / name))
        for value in (*proto.graph.input, *proto.graph.output):
            value.type.tensor_type.shape.dim[0].dim_value = batch
        onnx.save(proto, tmp_path / name)
    open_page(window, diff_page(tmp_path, a=tmp_path / "a.onnx", b=tmp_path / "b.onnx"))
    assert window.texts(".chip") == ["equal 0"][1:] + ["other shape 8"]
    choose(window, "head")
    assert "float32[2,4] → float32[5,4]" in window.texts("#facts")[0]


# ---- figures ----

def profile_json(path, model, times):
    path.write_text(json.dumps({"file": model, "unit": "microseconds", "runs": 2, "operator_time": 4000, "unattributed": 0,
                                "modules": [{"path": name, "total": time} for name, time in times.items()]}))
    return path


def accuracy_json(path, model, errors):
    path.write_text(json.dumps({"model": model, "settings": "ONNX Runtime", "tolerance": 0.01, "observable": len(errors),
                                "first": None, "modules": [
                                    {"module": name, "status": "equal" if error is not None and error < 0.01 else "differs",
                                     "relative": error, "sqnr_db": 20} for name, error in errors.items()]}))
    return path


@in_browser
def test_figures_of_both_files_are_side_by_side(window, tmp_path):  # noqa: F811
    options = ["--figures-a", profile_json(tmp_path / "pa.json", "a.onnx", {"": 4000, "net.0": 3000}),
               "--figures-b", profile_json(tmp_path / "pb.json", "b.onnx", {"": 2000, "net.0": 1500, "gone": 3}),
               "--figures-b", accuracy_json(tmp_path / "ab.json", "b.onnx", {"net.0": 0.5, "net.1": None})]
    open_page(window, diff_page(tmp_path, *options))
    choose(window, "net.0")
    rows = [re.sub(r"\s+", " ", row) for row in window.texts("#facts .measured tbody tr")]
    assert rows == ["time of a run1.5 ms0.75 ms× 0.5", "relative error–0.5", "SQNR–20 dB"]
    assert "b: differs" in window.texts("#facts")[0]
    window.run("const it = document.getElementById('column'); it.value = '0'; it.dispatchEvent(new Event('change'));")
    assert "2 ms → 1 ms" in window.texts("#tree .count")
    window.click("#tab-figures")
    text = window.texts("#figures")[0]
    assert "pb.json" in text and "1 module not in this page" in text and "∞" in text
    window.run("[...document.querySelectorAll('#figures th .link')].find((it) => it.textContent.startsWith('b: relative')).click();")
    assert [row.split("–")[0].strip() for row in window.texts("#figures tbody td:first-child")][:2] == ["net.1", "net.0"]
    assert window.complaints() == []


def test_measurements_of_another_file_are_reported(tmp_path):
    figures = profile_json(tmp_path / "p.json", "b.onnx", {"": 1})
    done = command.run("diff", before(tmp_path / "a.onnx"), after(tmp_path / "b.onnx"), "--html", tmp_path / "d.html",
                       "--figures-a", figures)
    assert "the figures are of b.onnx, not of a.onnx" in done.stderr


def test_figures_need_a_page_and_a_measurement(tmp_path):
    a, b = before(tmp_path / "a.onnx"), after(tmp_path / "b.onnx")
    figures = profile_json(tmp_path / "p.json", "a.onnx", {"": 1})
    assert "E0101" in command.run("diff", a, b, "--figures-a", figures, code=2).stderr
    (tmp_path / "other.json").write_text("[1]")
    for other in (tmp_path / "other.json", a):
        assert "E0203" in command.run("diff", a, b, "--html", tmp_path / "d.html", "--figures-b", other, code=3).stderr
    assert not (tmp_path / "d.html").exists()


def test_outputs_never_replace_inputs(tmp_path):
    a, b = before(tmp_path / "a.onnx"), after(tmp_path / "b.onnx")
    (tmp_path / "me").mkdir()
    figures = profile_json(tmp_path / "me" / "mapping.json", "a.onnx", {"": 1})
    content = figures.read_bytes()
    assert "E0101" in command.run("diff", a, b, "--html", b, code=2).stderr
    assert "E0101" in command.run("diff", a, b, "--html", tmp_path / "d.html", "--figures-a", figures, "--model-explorer",
                                  tmp_path / "me", code=2).stderr
    assert figures.read_bytes() == content and not (tmp_path / "d.html").exists()


# ---- use ----

@in_browser
def test_the_keyboard_moves_between_the_graphs(window, tmp_path):  # noqa: F811
    open_page(window, diff_page(tmp_path))
    choose(window, "net.1.dense")
    focused = "document.activeElement.getAttribute('aria-label')"
    window.run("focusItem(drawing.graph.items.findIndex((item) => item.kind === 'node' && item.side === 0));")
    assert window.run(f"return {focused};") == "a: MatMul /net.1.dense/MatMul_p1, changed"
    window.press("ArrowRight")
    assert window.run(f"return {focused};") == "b: MatMul /net.1.dense/MatMul_p1, changed"
    window.press("ArrowDown", "ArrowLeft")
    assert window.run(f"return {focused};") == "a: Add /net.1.dense/Add_s1, equal"
    window.press("Enter")
    assert window.texts("#evidence h2") == ["Add"]
    assert len(window.run("return [...document.querySelectorAll('.item.chosen')];")) == 2  # in both graphs
    window.press("Escape")
    window.run("document.getElementById('tab-module').focus();")
    window.press("ArrowRight")
    assert window.run("return document.activeElement.id;") == "tab-changes" and window.texts("#changes tbody tr")
    window.press("/")
    assert window.run("return document.activeElement.id;") == "search"


@in_browser
def test_the_page_fits_a_phone(window, tmp_path):  # noqa: F811
    window.resize(390, 844)
    try:
        figures = profile_json(tmp_path / "p.json", "a.onnx", {"": 1})
        open_page(window, diff_page(tmp_path, "--figures-a", figures))
        fits = "return document.body.scrollWidth <= innerWidth && document.querySelector('main').scrollWidth <= innerWidth;"
        assert window.run(fits)
        items = choose(window, "net.1.dense")
        assert all(0 <= each["left"] < each["right"] <= 390 for each in items) and window.run(fits)
        for tab in ("changes", "figures"):
            window.click(f"#tab-{tab}")
            assert window.run(fits)
    finally:
        window.resize()


@in_browser
def test_dark_mode_has_its_own_palette(tmp_path):
    page = diff_page(tmp_path)
    lightness = []
    for dark in (False, True):
        (tmp_path / str(dark)).mkdir()
        opened = browser.Browser(tmp_path / str(dark), dark=dark)
        try:
            open_page(opened, page)
            colours = opened.run("return [getComputedStyle(document.body).backgroundColor, "
                                 "getComputedStyle(document.querySelector('#canvas .item rect')).fill];")
            lightness.append([sum(map(int, re.findall(r"\d+", each)[:3])) for each in colours])
        finally:
            opened.close()
    assert all(light > 500 for light in lightness[0]) and all(dark < 250 for dark in lightness[1])


@in_browser
def test_hostile_names_are_inert(window, tmp_path):  # noqa: F811
    model = view_files.hostile(tmp_path / "a.onnx")
    proto = onnx.load(model)
    for node in proto.graph.node:
        node.name += "<i>"
    onnx.save(proto, tmp_path / "b.onnx")
    open_page(window, diff_page(tmp_path, a=model, b=tmp_path / "b.onnx"))
    window.click("#tab-changes")
    for node in range(len(view_files.HOSTILE)):
        window.run("chooseNode(arguments[0]);", node)
    assert window.run("return document.querySelectorAll('img, x, i:not([class])').length;") == 0
    assert not re.search(r"[\x00-\x08\x0b-\x1f\u2028\u2029\u202a-\u202e]", window.run("return document.body.innerText;"))
    assert window.run("return document.title;") == "a.onnx → b.onnx – whence" and window.complaints() == []


def test_the_page_fetches_nothing_and_is_deterministic(tmp_path):
    text = diff_page(tmp_path).read_text()
    policy = re.search(r'Content-Security-Policy" content="([^"]*)"', text).group(1)
    assert policy.startswith("default-src 'none'; script-src 'sha256-") and "unsafe" not in policy
    assert not re.search(r'(?:src|href)="(?!#)', text)
    assert diff_page(tmp_path).read_text() == text


@in_browser
def test_a_large_page_says_what_it_leaves_out(window, tmp_path):  # noqa: F811
    """Of 101,000 nodes, the 1,000 last ones that are equal are not in the page; the one that differs is."""
    model = view_files.layers(101_000, tmp_path / "a.onnx")
    proto = onnx.load(model)
    changed = next(node for node in reversed(proto.graph.node) if node.op_type == "MatMul")
    changed.attribute.append(helper.make_attribute("note", "other"))
    onnx.save(proto, tmp_path / "b.onnx")
    page = diff_page(tmp_path, a=model, b=tmp_path / "b.onnx")
    milliseconds = min(open_page(window, page) for _ in range(2))
    print(f"{milliseconds} ms, {page.stat().st_size / 1e6:.1f} MB")
    assert milliseconds < 3000 and page.stat().st_size < 8e6
    assert window.run("return nodeCount;") == 100_000
    assert window.texts("#headline") == ["101,000 nodes, 0 weights read, 1 node of a and 1 of b differ"]
    window.click("#tab-changes")
    assert window.texts("#left-out")[0].startswith(
        "This page is bounded in size. It leaves out 0 modules and 1,000 nodes, none of which differs.")
    assert [row for row in window.texts("#changes tbody tr") if changed.name in row]
    assert window.complaints() == []


# ---- Model Explorer ----

def test_the_mapping_has_each_node_of_both_graphs_once(tmp_path):
    a, b = before(tmp_path / "a.onnx"), after(tmp_path / "b.onnx")
    command.run("diff", a, b, "--model-explorer", tmp_path / "out")
    graphs = []
    for name, model in (("a", a), ("b", b)):
        written = json.loads((tmp_path / "out" / f"{name}.graph.json").read_text())
        assert written == json.loads(command.run("model-explorer", model).stdout)
        require_graph(written["graphs"][0])
        graphs.append(by_id(written["graphs"][0]))
    mapping = json.loads((tmp_path / "out" / "mapping.json").read_text())
    assert mapping["type"] == "sync_navigation" and mapping["showDiffHighlights"] is True
    entries = [(entry["leftNodeIds"], entry["rightNodeIds"]) for entry in mapping["mappingEntries"]]
    for side, (model, absent) in enumerate(((a, "(not in a.onnx)"), (b, "(not in b.onnx)"))):
        ids = [each for entry in entries for each in entry[side] if each != absent]
        assert sorted(ids) == sorted(node.name for node in onnx.load(model).graph.node)
        assert set(ids) <= graphs[side].keys() and absent not in graphs[side]
    assert (["/net.0.dense/MatMul_p0", "/net.0.dense/Add_s0"], ["/net.0.dense/Gemm_s0"]) in entries
    assert (["/drop/Identity_i"], ["(not in b.onnx)"]) in entries and (["(not in a.onnx)"], ["/extra/Abs_k"]) in entries
    assert (["/net.1.dense/Add_s1"],) * 2 in entries


def test_page_and_mapping_are_written_together_or_not(tmp_path):
    a, b = before(tmp_path / "a.onnx"), after(tmp_path / "b.onnx")
    (tmp_path / "out" / "mapping.json").mkdir(parents=True)
    assert "E0401" in command.run("diff", a, b, "--html", tmp_path / "d.html", "--model-explorer", tmp_path / "out", code=5).stderr
    assert not (tmp_path / "d.html").exists() and not (tmp_path / "out" / "a.graph.json").exists()
    done = command.run("diff", a, b, "--html", tmp_path / "d.html", "--model-explorer", tmp_path / "new", "--exit-code", code=1)
    written = [line.partition(":")[0] for line in done.stdout.splitlines()]
    assert written == [str(tmp_path / name) for name in ("d.html", "new/a.graph.json", "new/b.graph.json", "new/mapping.json")]
