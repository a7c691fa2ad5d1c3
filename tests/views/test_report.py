"""Tests `whence report`: the page in a browser, the Markdown, and invalid options."""

import re
import string
from random import Random

import onnx
import pytest
from onnx import TensorProto, helper

import command
from validate.test_coverage import annotated
from views import browser, picture, view_files
from views.page_data import Page

in_browser = pytest.mark.skipif(browser.missing() is not None, reason=str(browser.missing()))


SCRIPTS = "script:not([type='text/plain'])"  # the script, and the data in JSON


def report(model, folder, *options):
    page = folder / "report.html"
    command.run("report", model, "-o", page, *options)
    return page


@pytest.fixture(scope="module")
def window(tmp_path_factory):
    opened = browser.Browser(tmp_path_factory.mktemp("browser"))
    yield opened
    opened.close()


def open_page(window, page) -> int:
    """Opens a page. Returns the milliseconds until it is usable."""
    window.open(page)
    return int(window.wait("document.documentElement.dataset.ready"))


# ---- in a browser -------------------------------------------------------------------------------------------------

@in_browser
def test_ten_thousand_nodes_open_within_two_seconds(window, tmp_path):
    page = report(view_files.layers(10_000, tmp_path / "m.onnx"), tmp_path)
    milliseconds = min(open_page(window, page) for _ in range(3))
    drawing = window.run("const start = performance.now(); chooseModule(moduleByPath().get('layers'));"
                         "document.body.getBoundingClientRect(); return performance.now() - start;")
    window.run("setOpen(moduleByPath().get('layers'), true); refreshTree();")
    assert window.run("return tree.rows.length;") > 500
    rows = window.run("return document.querySelectorAll('[role=treeitem]').length;")
    print(f"{milliseconds} ms, {page.stat().st_size / 1e6:.1f} MB, {rows} rows drawn, "
          f"a graph of 250 items in {drawing:.0f} ms")
    assert milliseconds < 2000 and drawing < 2000
    assert 5 < rows < 200  # only the visible rows
    assert window.run("return endOf[0];") == len({f"layers.{i}.{p}" for i in range(500) for p in ("attn", "mlp")}) + 502
    assert window.complaints() == []


@in_browser
def test_each_piece_contains_the_evidence_of_its_nodes(window, tmp_path):
    """Compares the first and the last node of each piece of 1,000 nodes with the file."""
    page = report(view_files.layers(2_500, tmp_path / "m.onnx"), tmp_path)
    open_page(window, page)
    nodes = list(onnx.load(tmp_path / "m.onnx").graph.node)
    for number in (0, 999, 1000, 1999, 2000, 2499):
        keys = [text for entry in nodes[number].metadata_props for text in (entry.key, entry.value)]
        assert keys
        assert window.run("return evidenceOf(arguments[0]).keys;", number) == keys
        window.run("chooseNode(arguments[0]);", number)
        assert window.texts("#evidence div.mono")[0] == nodes[number].name
    assert window.complaints() == []


@in_browser
def test_the_browser_unpacks_what_the_command_packed(window, tmp_path):
    """The names are random and hardly compressible; the numbers have one, two, four and eight bytes."""
    random = Random(7)
    name = lambda: "".join(random.choices(string.printable, k=random.randrange(1, 90)))
    nodes = [helper.make_node("MatMul", ["x", f"v{random.randrange(i)}" if i else "x"], [f"v{i}"], name=f"{i}{name()}")
             for i in range(70_000)]
    for i, node in enumerate(nodes[:300]):
        view_files.add_keys(node, module=f"m{i}", confidence="exact", source=name())
    model = view_files.save(nodes, tmp_path / "m.onnx", (3000, 3000))
    page = report(model, tmp_path, "--size", "all=1")
    open_page(window, page)
    assert window.run("return names.all();") == [node.name for node in nodes]
    assert [window.run("return names.at(arguments[0]);", i) for i in (0, 999, 1000, 69_999)] == [
        nodes[i].name for i in (0, 999, 1000, 69_999)]
    assert window.run("return data.sources.length;") == 301
    assert window.run("return nodes.operations().BYTES_PER_ELEMENT;") == 8
    assert window.run("return optional(nodes.operations(), 5);") == 2 * 3000 ** 3
    assert window.run("return [edges().from.BYTES_PER_ELEMENT, nodes.source.BYTES_PER_ELEMENT, "
                      "nodes.op.BYTES_PER_ELEMENT];") == [4, 2, 1]
    proto = window.run("return Array.from(edges().from, (from, i) => [from, edges().to[i], values.at(edges().value[i])]);")
    assert sorted(proto) == sorted([int(node.input[1][1:]), i, node.input[1]] for i, node in enumerate(nodes) if i)
    assert window.complaints() == []


def test_evidence_is_packed_in_pieces(tmp_path):
    page = report(view_files.layers(2_500, tmp_path / "m.onnx"), tmp_path)
    pieces = Page(page).pieces("evidence")
    assert [len(piece["nodes"]) for piece in pieces] == [1000, 1000, 500]
    nodes = onnx.load(tmp_path / "m.onnx").graph.node
    found = [[piece["texts"][number] for number in node[4]] for piece in pieces for node in piece["nodes"]]
    assert found == [[text for entry in node.metadata_props for text in (entry.key, entry.value)] for node in nodes]


@in_browser
def test_the_tree_shows_modules_with_their_counts(window, tmp_path):
    page = report(view_files.layers(40, tmp_path / "m.onnx"), tmp_path)
    open_page(window, page)
    rows = window.run("return [...document.querySelectorAll('[role=treeitem]')].map((row) => "
                      "[row.getAttribute('aria-label'),"
                      " Number(row.getAttribute('aria-level')), row.getAttribute('aria-expanded')]);")
    assert rows == [["(root), 40 nodes, 100 % covered", 1, "true"],
                    ["layers, 40 nodes, 100 % covered", 2, "true"],
                    ["layers.0, 20 nodes, 100 % covered", 3, "true"],
                    ["layers.0.attn, 10 nodes, 100 % covered", 4, "false"],
                    ["layers.0.mlp, 10 nodes, 100 % covered", 4, "false"],
                    ["layers.1, 20 nodes, 100 % covered", 3, "true"],
                    ["layers.1.attn, 10 nodes, 100 % covered", 4, "false"],
                    ["layers.1.mlp, 10 nodes, 100 % covered", 4, "false"]]


@in_browser
def test_search_and_filters_select_rows(window, tmp_path):
    page = report(view_files.layers(200, tmp_path / "m.onnx"), tmp_path)
    open_page(window, page)
    window.type("#search", "layers.3/mlp/Relu")
    window.wait("document.getElementById('hits').textContent !== ''")
    shown = window.run("return tree.rows.filter((row) => row.isNode).map((row) => names.at(row.id));")
    assert shown == ["/layers.3/mlp/Relu_70", "/layers.3/mlp/Relu_74", "/layers.3/mlp/Relu_78"]
    window.run("document.getElementById('search').value = ''; filter.words = []; refilter();")
    window.run("const it = document.getElementById('operator');"
               "it.value = [...it.options].find((option) => option.text.startsWith('Mul (')).value;"
               "it.dispatchEvent(new Event('change'));")
    assert window.run("return tree.kept.nodeHits.size;") == 50
    window.run("const it = document.getElementById('operator'); it.value = '-1';"
               "it.dispatchEvent(new Event('change'));")
    for name in ("exact", "inferred", "matched", "ancestor"):
        window.run("[...document.querySelectorAll('.chip')]"
                   ".find((chip) => chip.textContent.startsWith(arguments[0])).click();",
                   name)
    assert window.run("return tree.kept.nodeHits.size;") == 4  # every fiftieth node is unattributed
    assert window.texts("[role=treeitem] .label") == ["(no module)"]


@in_browser
def test_enter_in_the_search_goes_to_the_first_hit(window, tmp_path):
    open_page(window, report(view_files.layers(200, tmp_path / "m.onnx"), tmp_path))
    window.type("#search", "mlp" + browser.KEYS["Enter"])
    assert window.texts("#facts h2") == ["layers.0.mlp"]
    assert window.run("return document.activeElement.id;") == "tree"
    assert window.texts("#hits") == ["10 modules, 100 nodes"]  # nodes match by their names
    window.press("ArrowDown", "Enter")  # continues from the hit
    assert window.texts("#evidence div.mono")[0] == "/layers.0/mlp/Relu_10"
    window.run("document.getElementById('search').value = '';")
    window.type("#search", "Relu_70" + browser.KEYS["Enter"])
    assert window.texts("#evidence div.mono")[0] == "/layers.3/mlp/Relu_70"
    assert window.texts("#hits") == ["1 node"]
    window.run("document.getElementById('search').value = '';")
    window.type("#search", "nothing is called so" + browser.KEYS["Enter"])
    assert window.texts("#hits") == ["nothing matches"]
    assert window.complaints() == []


@in_browser
def test_operators_and_the_ends_of_names_are_visible(window, tmp_path):
    operator = "com.microsoft::SkipSimplifiedLayerNormalization"
    module = ".".join(f"part{i}" for i in range(6))
    node = helper.make_node(operator.split("::")[1], ["x", "x", "x"], ["y"], domain="com.microsoft",
                            name="/" + module.replace(".", "/") + "/the_name_ends_here" * 3)
    short = helper.make_node("MatMul", ["y", "y"], ["z"], name=node.name + "_2")
    for each in (node, short):
        view_files.add_keys(each, module=module, confidence="exact")
    open_page(window, report(view_files.save([node, short], tmp_path / "m.onnx"), tmp_path))
    window.run("chooseNode(0);")
    assert window.run("return [...document.querySelectorAll('#tree .operator')].map((it) => "
                      "[it.textContent, it.scrollWidth <= it.clientWidth]);") == [[operator, True], ["MatMul", True]]
    sides = window.run("""
      const shown = [...document.querySelectorAll('#tree .tail')].at(-1), name = shown.firstChild.firstChild;
      const box = shown.getBoundingClientRect();
      const at = (i) => { const range = document.createRange(); range.setStart(name, i); range.setEnd(name, i + 1);
        return range.getBoundingClientRect(); };
      return [box.width, at(0).left - box.left, at(name.length - 1).right - box.right];""")
    assert sides[0] > 50 and sides[1] < 0 and sides[2] <= 1  # the start is hidden, the end is visible
    assert operator in window.texts("#canvas text")


@in_browser
def test_a_wide_graph_is_fitted_to_the_pane(window, tmp_path):
    nodes = [helper.make_node("Relu", ["x"], [f"v{i}"], name=f"relu_{i}") for i in range(30)]
    nodes.append(helper.make_node("Sum", [f"v{i}" for i in range(30)], ["y"], name="sum"))
    for node in nodes:
        view_files.add_keys(node, module="net", confidence="exact")
    open_page(window, report(view_files.save(nodes, tmp_path / "m.onnx"), tmp_path))
    inside = "canvas.scrollWidth <= canvas.clientWidth"
    window.run("chooseModule(moduleByPath().get('net'));")
    assert window.run("return drawing.layout.width > 2 * canvas.clientWidth;")
    assert window.wait(inside)
    wide = window.run("return canvas.clientWidth;")
    window.run("chooseNode(3);")  # the evidence reduces the width
    assert window.wait(f"canvas.clientWidth < {wide}")
    window.click("#fit")
    assert window.wait(inside)
    window.click("#larger")
    zoom = window.run("return drawing.zoom;")
    window.run("hideEvidence();")
    assert window.wait(f"canvas.clientWidth === {wide}") and window.run("return drawing.zoom;") == zoom


def fan(path):
    """Writes a graph of 70 nodes in one module: 24 parallel pairs, then a chain."""
    nodes = [helper.make_node("Relu", ["x"], [f"r{i}"], name=f"relu_{i}") for i in range(24)]
    nodes += [helper.make_node("Neg", [f"r{i}"], [f"n{i}"], name=f"neg_{i}") for i in range(24)]
    nodes.append(helper.make_node("Sum", [f"n{i}" for i in range(24)], ["c0"], name="sum"))
    nodes += [helper.make_node("Tanh", [f"c{i}"], [f"c{i + 1}"], name=f"tanh_{i}") for i in range(21)]
    for node in nodes:
        view_files.add_keys(node, module="net.fan", confidence="exact")
    return view_files.save(nodes, path)


IS_VISIBLE = """(() => { const item = document.querySelector('.item.chosen').getBoundingClientRect();
  const around = canvas.getBoundingClientRect(); const size = parseFloat(getComputedStyle(
  document.querySelector('.item.chosen text.name')).fontSize) * drawing.zoom;
  return item.left >= around.left - 1 && item.right <= around.right + 1 && item.top >= around.top - 1 &&
    item.bottom <= Math.min(around.bottom, innerHeight) + 1 && size >= 9; })()"""


@in_browser
@pytest.mark.parametrize("width", [None, 420], ids=["wide", "narrow"])
def test_a_chosen_node_is_visible_and_readable(window, width, tmp_path):
    window.resize(width)
    try:
        open_page(window, report(fan(tmp_path / "m.onnx"), tmp_path))
        window.run("chooseModule(moduleByPath().get('net.fan'));")
        assert window.run("return drawing.zoom;") < 0.5  # too small to read
        for node in (0, 23, 47, 48, 69):
            window.run("chooseNode(arguments[0]);", node)
            assert window.wait(IS_VISIBLE), node
        window.run("drawing.items[0].focus(); setZoom(0.2); focusItem(0);")
        assert window.run("return drawing.zoom;") == 1  # keyboard focus zooms too
        window.run("chooseModule(moduleByPath().get('net.fan'));")
        assert window.run("return drawing.zoom;") < 0.5  # the next module is shown completely
    finally:
        window.resize()


@in_browser
def test_every_pane_is_usable_on_a_narrow_screen(window, tmp_path):
    """Uses only touch: rows of the tree, boxes of the graph, the back button, vertical scrolling."""
    window.resize(420)
    try:
        open_page(window, report(view_files.layers(40, tmp_path / "m.onnx"), tmp_path))
        main = "document.querySelector('main')"
        assert window.run(f"return {main}.scrollWidth <= {main}.clientWidth && document.body.scrollWidth <= innerWidth;")
        assert window.run(f"return {main}.scrollTop;") == 0  # the tree is visible first
        top = "document.getElementById('{}').getBoundingClientRect().top"
        window.run("[...document.querySelectorAll('[role=treeitem]')].find((row) => "
                   "row.getAttribute('aria-label').startsWith('layers.1.attn')).querySelector('.label').click();")
        content = window.wait(f"Math.abs({top.format('content')} - {main}.getBoundingClientRect().top) < 2")
        assert content and window.texts("#facts h2") == ["layers.1.attn"]
        height = window.run("return canvas.getBoundingClientRect().bottom;")
        assert window.run("return canvas.clientHeight;") > 120 and height <= 900
        window.run("drawing.items[0].dispatchEvent(new MouseEvent('click'));")
        assert window.run(f"return {top.format('evidence')};") < 900  # its heading is visible below the graph
        window.run(f"{main}.scrollTop = {main}.scrollHeight;")
        assert window.run("return document.querySelector('#evidence dl').getBoundingClientRect().bottom;") < 900
        window.run("document.getElementById('content').scrollIntoView();")
        window.click("#to-tree")
        assert window.run(f"return {top.format('tree')} > 0 && {top.format('tree')} < 450 && "
                          "document.activeElement.id;") == "tree"
        window.run("location.hash = '#m=layers.0';")  # a link leads to the module
        assert window.wait(f"Math.abs({top.format('content')} - {main}.getBoundingClientRect().top) < 2")
        assert window.complaints() == []
    finally:
        window.resize()
    assert window.run("return getComputedStyle(document.getElementById('to-tree')).display;") == "none"


@in_browser
def test_the_height_of_the_figures_is_adjustable(window, tmp_path):
    open_page(window, report(view_files.layers(40, tmp_path / "m.onnx"), tmp_path))
    height = "document.getElementById('facts').offsetHeight"
    first = window.run(f"return {height};")
    window.drag("#splitter", 60)
    assert abs(window.run(f"return {height};") - first - 60) <= 4  # the bar is seven pixels high
    window.run("chooseModule(moduleByPath().get('layers.0')); document.getElementById('splitter').focus();")
    dragged = window.run(f"return {height};")
    window.press("ArrowUp")
    assert window.run(f"return {height};") == dragged - 24
    window.press("End")
    assert window.run("return canvas.clientHeight > 0 && document.getElementById('drawing').offsetHeight >= 100;")
    window.press("Home")
    assert window.run(f"return {height};") == 40
    window.run("document.getElementById('splitter').dispatchEvent(new MouseEvent('dblclick'));")
    assert window.run("chooseModule(0);"f"return {height};") == first


@in_browser
def test_the_page_marks_unknown_facts(window, tmp_path):
    """The operation count needs a size. The producer is labelled, because tools that rewrite a file keep it."""
    proto = onnx.load(conv_model(tmp_path / "m.onnx"))
    proto.producer_name, proto.producer_version = "pytorch", "2.13"
    del proto.graph.node[1:], proto.graph.output[:]
    proto.graph.output.append(helper.make_tensor_value_info("c", TensorProto.FLOAT, None))
    onnx.save(proto, tmp_path / "m.onnx")
    open_page(window, report(tmp_path / "m.onnx", tmp_path))
    assert window.texts("#headline") == ["1 node, 100 % covered, producer pytorch 2.13"]
    assert window.texts(".figure") == ["1node, 0 its own", "100 %covered", "216parameters", "unknown: pass --sizeFLOPs"]
    assert "batch; pass one with --size NAME=N" in window.texts("#facts details p")[0]
    assert [text for text in window.texts("#canvas text") if "node" in text] == ["module · 1 node"]


@in_browser
def test_the_keyboard_controls_the_tree_and_the_graph(window, tmp_path):
    page = report(view_files.layers(40, tmp_path / "m.onnx"), tmp_path)
    open_page(window, page)
    window.run("document.getElementById('tree').focus();")
    active = ("document.getElementById(document.activeElement.getAttribute('aria-activedescendant'))"
              ".getAttribute('aria-label')")
    window.press("Home", "ArrowDown", "ArrowDown", "ArrowLeft", "ArrowRight", "ArrowRight")
    assert window.run(f"return {active};") == "layers.0.attn, 10 nodes, 100 % covered"
    window.press("Enter")
    assert window.texts("#facts h2") == ["layers.0.attn"]
    assert len(window.run("return drawing.items.map(String);")) == 10 + len(
        window.run("return drawing.graph.items.filter((item) => item.kind === 'in' || item.kind === 'out');"))
    window.press("ArrowRight", "ArrowRight", "Enter")
    assert window.texts("#evidence h2") == ["MatMul"]
    window.press("Escape")
    assert window.run("return document.getElementById('evidence').hidden && document.activeElement.id === 'tree';")
    window.press("ArrowLeft", "ArrowLeft")
    assert window.run(f"return {active};") == "layers.0.attn, 10 nodes, 100 % covered"
    window.run("drawing.items[0].focus();")
    window.press("ArrowDown", "Enter")
    assert window.run("return document.activeElement.getAttribute('role');") == "button"


@in_browser
def test_many_values_across_a_module_are_one_port(window, tmp_path):
    """60 of 3,000 nodes have no module and exchange too many values with the root to draw each value."""
    page = report(view_files.layers(3000, tmp_path / "m.onnx"), tmp_path)
    open_page(window, page)
    kinds = window.run("return drawing.graph.items.map((item) => [item.kind, item.values ? item.values.size : 0]);")
    assert kinds[0] == ["box", 0] and len(kinds) < 10
    proto = onnx.load(tmp_path / "m.onnx").graph
    outside = {node.output[0] for node in proto.node if "pkg.whence.module" not in view_files.keys_of(node)}
    read = {value for node in proto.node if node.output[0] not in outside for value in node.input if value in outside}
    assert ["in", len(read)] in kinds


@in_browser
def test_hostile_names_are_inert(window, tmp_path):
    page = report(view_files.hostile(tmp_path / "m.onnx"), tmp_path)
    open_page(window, page)
    assert window.complaints() == []
    assert window.run(f"return document.querySelectorAll({SCRIPTS!r}).length;") == 2
    assert window.run("return document.querySelectorAll('img, x').length;") == 0
    assert window.run("return document.title;") == "m.onnx – whence"
    assert window.run("return names.all();") == view_files.HOSTILE
    for node in range(len(view_files.HOSTILE)):
        window.run("chooseNode(arguments[0]);", node)
        visible_text = window.run("return document.body.innerText;")
        assert not re.search(r"[\x00-\x08\x0b-\x1f\u2028\u2029\u202a-\u202e]", visible_text)
    assert window.run(f"return document.querySelectorAll({SCRIPTS!r} + ', img, x').length;") == 2
    assert window.complaints() == []


@in_browser
def test_the_page_of_a_real_model_has_its_recording(window, tmp_path):
    model, sidecar = annotated("bert_tiny")
    page = report(model, tmp_path, "--sidecar", sidecar)
    open_page(window, page)
    proto = onnx.load(model, load_external_data=False)
    node = next(node for node in proto.graph.node if view_files.keys_of(node).get("pkg.whence.module") ==
                "encoder.layer.1.intermediate.dense")
    window.run("chooseNode(nodeByName().get(arguments[0]));", node.name)
    window.run("chooseModule(moduleByPath().get('encoder.layer.0.output.dropout'));")
    summary = window.run("return document.getElementById('recorded').textContent;")
    assert summary == "Recorded: 1 operation, 1 eliminated; 0 parameters and buffers."
    explanation = command.run_json("explain", model, node.name, "--sidecar", sidecar)
    text = window.run("return document.getElementById('evidence').textContent;")
    assert explanation["reason"] in text and explanation["source"] in text and explanation["operations"][0]["op"] in text
    assert all(frame in text for frame in explanation["operations"][0]["source"])
    assert window.complaints() == []


@in_browser
def test_a_picture_of_the_page_is_taken(tmp_path):
    """Also checks the README's picture, which `picture.py` takes."""
    model = view_files.layers(40, tmp_path / "m.onnx")
    name = next(each.name for each in onnx.load(model).graph.node if each.name)
    picture.take(report(model, tmp_path), name, tmp_path / "page.webp", tmp_path)
    for path in (tmp_path / "page.webp", command.ROOT / "docs" / "report.webp"):
        data = path.read_bytes()
        width, height = (int.from_bytes(data[at:at + 3], "little") + 1 for at in (24, 27))
        assert data[:4] == b"RIFF" and data[8:16] == b"WEBPVP8X" and (width, height) == (picture.WIDTH, picture.HEIGHT)
        assert len(data) < 120_000
    assert "](docs/report.webp)" in (command.ROOT / "README.md").read_text()


@in_browser
def test_the_page_lists_the_findings_of_validate(window, tmp_path):
    nodes = [helper.make_node("Relu", ["x"], ["a"], name="same"), helper.make_node("Relu", ["a"], ["y"], name="same")]
    model = view_files.save(nodes, tmp_path / "m.onnx")
    open_page(window, report(model, tmp_path))
    assert window.texts("#facts h2") == ["(no module)"] and "whence annotate" in window.texts("#facts .because")[0]
    window.click("#tab-findings")
    findings = command.run_json("validate", model, code=1)["findings"]
    assert [row.split("e")[0][:4] for row in window.texts("#findings tbody tr")] == [each["code"] for each in findings]
    assert "same" in window.texts("#findings tbody tr")[0]


# ---- content of the page, without a browser -----------------------------------------------------------------------

def test_the_page_fetches_nothing_and_runs_only_its_own_script(tmp_path):
    text = report(view_files.layers(20, tmp_path / "m.onnx"), tmp_path).read_text()
    policy = re.search(r'Content-Security-Policy" content="([^"]*)"', text).group(1)
    assert policy.startswith("default-src 'none'; script-src 'sha256-") and "unsafe" not in policy
    assert not re.search(r'(?:src|href)="(?!#)', text)
    scripts = re.findall(r"<script([^>]*)>", text)
    assert len(scripts) > 3 and all(each.startswith(' type="text/plain" id="whence-') for each in scripts[1:-1])
    assert (scripts[0], scripts[-1]) == (' type="application/json" id="whence-data"', "")


def test_the_page_has_the_edges_of_the_graph(tmp_path):
    model = view_files.layers(60, tmp_path / "m.onnx")
    page = Page(report(model, tmp_path))
    found = set(page.edges())
    proto = onnx.load(model).graph
    source = {output: node.name for node in proto.node for output in node.output}
    assert found == {(source[value], node.name, value) for node in proto.node for value in node.input if value in source}


def conv_model(path, batch="batch"):
    """Writes a Conv from 3 to 8 channels, 3x3 on 10x10; a Relu; and a Gemm from 8*8*8 to 5."""
    weights = [helper.make_tensor("w", TensorProto.FLOAT, [8, 3, 3, 3], [0.1] * 216),
               helper.make_tensor("m", TensorProto.FLOAT, [512, 5], [0.1] * 2560)]
    nodes = [helper.make_node("Conv", ["x", "w"], ["c"], name="conv"),
             helper.make_node("Relu", ["c"], ["r"], name="relu"),
             helper.make_node("Flatten", ["r"], ["f"], name="flatten"),
             helper.make_node("Gemm", ["f", "m"], ["y"], name="gemm")]
    for node in nodes:
        view_files.add_keys(node, module="net", confidence="exact")
    graph = helper.make_graph(nodes, "graph",
                              [helper.make_tensor_value_info("x", TensorProto.FLOAT, [batch, 3, 10, 10])],
                              [helper.make_tensor_value_info("y", TensorProto.FLOAT, None)], weights)
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 18)], ir_version=10), path)
    return path


# Counts by hand: each of the 2*8*8*8 elements of the convolution takes 27 products and 27 sums, each of the 2*5
# elements of the Gemm 512 of both.
OPERATIONS = {"conv": 2 * (2 * 8 * 8 * 8) * 27, "relu": 2 * 8 * 8 * 8, "flatten": 0, "gemm": 2 * (2 * 5) * 512}


@pytest.mark.parametrize("batch, options", [
    (2, []), ("batch", ["--size", "batch=2"]), ("batch", ["--size", "all=2"]), (None, ["--size", "all=2"]),
    ("batch", ["--size", "all=7,batch=2"]), ("all", ["--size", "all=2"])])
def test_operations_equal_counts_by_hand(batch, options, tmp_path):
    page = Page(report(conv_model(tmp_path / "m.onnx", batch), tmp_path, *options))
    assert page.node_column("operations") == OPERATIONS
    assert page.modules()[1]["path"] == "net"
    assert (page.modules()[1]["operations"], page.modules()[1]["uncounted"]) == (sum(OPERATIONS.values()), 0)


# By operator of ONNX Runtime: the shapes of the inputs (empty if the formula does not read them), attributes, the
# result's shape, and the count by hand: per element twice the inner size (7; convolution 27; four bits 32), or 1.
FUSED = {
    "FusedMatMul": ([[4, 3, 7], [4, 7, 5]], {}, [4, 3, 5], 2 * (4 * 3 * 5) * 7),
    "FusedMatMul turned": ([[4, 7, 3], [4, 7, 5]], {"transA": 1}, [4, 3, 5], 2 * (4 * 3 * 5) * 7),
    "FusedMatMul batch": ([[7, 4, 3], [4, 7, 5]], {"transA": 1, "transBatchA": 1}, [4, 3, 5], 2 * (4 * 3 * 5) * 7),
    "FusedGemm": ([[7, 6], [7, 5]], {"transA": 1}, [6, 5], 2 * (6 * 5) * 7),
    "QGemm": ([[6, 7], [], [], [7, 5]], {}, [6, 5], 2 * (6 * 5) * 7),
    "DynamicQuantizeMatMul": ([[6, 7], [7, 5]], {}, [6, 5], 2 * (6 * 5) * 7),
    "MatMulNBits": ([[6, 32], [8, 1, 16], [8]], {"K": 32, "N": 8}, [6, 8], 2 * (6 * 8) * 32),
    "NhwcFusedConv": ([[1, 10, 10, 3], [8, 3, 3, 3]], {}, [1, 8, 8, 8], 2 * (8 * 8 * 8) * 27),
    "QLinearAdd": ([[2, 3], [], [], [2, 3]], {}, [2, 3], 2 * 3),
    "QLinearConcat": ([[], [], [2, 3]], {}, [2, 3], 0),
    "BiasSplitGelu": ([[2, 6], [6]], {}, [2, 3], None),
}


def fused_model(path):
    nodes, inputs, outputs = [], [], []
    for i, (name, (sizes, attributes, result, _)) in enumerate(FUSED.items()):
        reads = [f"x{i}_{slot}" for slot in range(len(sizes))]
        inputs += [helper.make_tensor_value_info(read, TensorProto.FLOAT, dims) for read, dims in zip(reads, sizes, strict=True)]
        outputs.append(helper.make_tensor_value_info(f"y{i}", TensorProto.FLOAT, result))
        nodes.append(helper.make_node(name.split()[0], reads, [f"y{i}"], name=name, domain="com.microsoft", **attributes))
    opsets = [helper.make_opsetid("", 18), helper.make_opsetid("com.microsoft", 1)]
    graph = helper.make_graph(nodes, "graph", inputs, outputs)
    onnx.save(helper.make_model(graph, opset_imports=opsets, ir_version=10), path)
    return path


def test_operations_of_fused_and_quantized_operators_are_counted(tmp_path):
    page = Page(report(fused_model(tmp_path / "m.onnx"), tmp_path))
    found = page.node_column("operations")
    assert found == {name: count for name, (*_, count) in FUSED.items()}


def test_operations_of_unknown_sizes_are_unknown(tmp_path):
    page = Page(report(conv_model(tmp_path / "m.onnx"), tmp_path))
    found = page.node_column("operations")
    assert found == {**dict.fromkeys(OPERATIONS), "flatten": 0}
    assert (page.modules()[0]["uncounted"], page.modules()[0]["unsized"], page.tables["open_sizes"]) == (3, 3, ["batch"])


def test_a_partial_count_is_not_shown_as_the_total(tmp_path):
    """The Relu of a fixed size is counted, but the convolution is not, so 12 operations are not the total."""
    proto = onnx.load(conv_model(tmp_path / "m.onnx"))
    proto.graph.node.append(helper.make_node("Relu", ["fixed"], ["z"], name="small"))
    view_files.add_keys(proto.graph.node[-1], module="net", confidence="exact")
    proto.graph.input.append(helper.make_tensor_value_info("fixed", TensorProto.FLOAT, [3, 4]))
    proto.graph.output.append(helper.make_tensor_value_info("z", TensorProto.FLOAT, [3, 4]))
    onnx.save(proto, tmp_path / "m.onnx")
    lines = {}
    for options in ((), ("--size", "all=2")):
        command.run("report", tmp_path / "m.onnx", "-o", tmp_path / "r.md", *options)
        lines[options] = next(line for line in (tmp_path / "r.md").read_text().splitlines() if line.startswith("| `net`"))
    assert lines[()].endswith("| unknown: pass --size |")
    assert lines["--size", "all=2"].endswith(f"| {sum(OPERATIONS.values()) + 12:,} |")


def test_operations_of_data_dependent_sizes_are_unknown(tmp_path):
    """NonZero determines the number of rows, so later counts are unknown, and the known counts are not the total."""
    nodes = [helper.make_node("NonZero", ["x"], ["i"], name="i"), helper.make_node("Transpose", ["i"], ["t"], name="t"),
             helper.make_node("Cast", ["t"], ["c"], name="c", to=TensorProto.FLOAT),
             helper.make_node("Relu", ["x"], ["r"], name="r"), helper.make_node("MatMul", ["c", "w"], ["y"], name="y")]
    for each in nodes:
        view_files.add_keys(each, module="before" if each.name == "r" else "net", confidence="exact")
    inputs = [helper.make_tensor_value_info("x", TensorProto.FLOAT, [3, 4]), helper.make_tensor_value_info("w", TensorProto.FLOAT, [2, 5])]
    outputs = [helper.make_tensor_value_info("y", TensorProto.FLOAT, ["n", 5]), helper.make_tensor_value_info("r", TensorProto.FLOAT, [3, 4])]
    model = helper.make_model(helper.make_graph(nodes, "g", inputs, outputs), opset_imports=[helper.make_opsetid("", 18)], ir_version=10)
    onnx.save(model, tmp_path / "m.onnx")
    command.run("report", tmp_path / "m.onnx", "-o", tmp_path / "r.md")
    lines = {line.split("|")[1].strip(): line for line in (tmp_path / "r.md").read_text().splitlines() if line.startswith("| `")}
    assert lines["`net`"].endswith("| unknown |") and lines["`before`"].endswith("| 12 |")
    assert lines["`(root)`"].endswith("| unknown |")


@pytest.mark.parametrize("batch", ["batch", "unk__6"])
def test_sizes_numbered_by_inference_are_question_marks(batch, tmp_path):
    """The name of an input's size is always shown, because --size accepts it."""
    proto = onnx.load(conv_model(tmp_path / "m.onnx", batch))
    for axis, name in ((2, "h"), (3, "w")):
        proto.graph.input[0].type.tensor_type.shape.dim[axis].dim_param = name
    del proto.graph.node[2:], proto.graph.output[:]
    proto.graph.output.append(helper.make_tensor_value_info("r", TensorProto.FLOAT, None))
    onnx.save(proto, tmp_path / "m.onnx")
    page = Page(report(tmp_path / "m.onnx", tmp_path))
    assert page.shapes() == {"x": f"float32[{batch},3,h,w]", "c": f"float32[{batch},8,?,?]", "r": f"float32[{batch},8,?,?]"}


def one_node(path):
    node = helper.make_node("Relu", ["x"], ["y"], name="only")
    view_files.add_keys(node, module="net", confidence="exact")
    return view_files.save([node], path)


def test_a_single_node_is_written_in_the_singular(tmp_path):
    model = one_node(tmp_path / "m.onnx")
    output = command.run("report", model, "-o", tmp_path / "r.md").stdout
    assert output == f"{tmp_path / 'r.md'}: 1 node in 2 modules, 1 covered, 0 findings\n"
    assert (tmp_path / "r.md").read_text().startswith("## `m.onnx`\n\n1 node\n")
    assert command.run("annotate", model, "-o", tmp_path / "a.onnx").stdout.startswith(f"{tmp_path / 'a.onnx'}: 1 node: ")
    assert "m.onnx: 1 node\n" in command.run("validate", model).stdout


def test_the_same_file_gives_the_same_bytes(tmp_path):
    model = view_files.layers(60, tmp_path / "m.onnx")
    for name in ("r.html", "r.md"):
        command.run("report", model, "-o", tmp_path / name)
        first = (tmp_path / name).read_bytes()
        command.run("report", model, "-o", tmp_path / name)
        assert (tmp_path / name).read_bytes() == first


# ---- Markdown -----------------------------------------------------------------------------------------------------

def test_markdown_has_coverage_findings_and_modules(tmp_path):
    model, page = view_files.layers(100, tmp_path / "m.onnx"), tmp_path / "r.md"
    command.run("report", model, "-o", page)
    text = page.read_text()
    assert text.startswith("## `m.onnx`\n\n100 nodes\n")
    assert "| unattributed | 2 | 2.0 % |" in text and "| **covered** | 98 | 98.0 % |" in text
    assert "| `layers` |  | 98 | 100.0 % |" in text
    assert all(line.count("|") == 7 for line in text.splitlines() if line.startswith("| `layers"))


def test_hostile_names_do_not_break_markdown_tables(tmp_path):
    command.run("report", view_files.hostile(tmp_path / "m.onnx"), "-o", tmp_path / "r.md")
    text = (tmp_path / "r.md").read_text()
    rows = [line for line in text.splitlines() if line.startswith("| `") or line.startswith("| ``")]
    assert len(rows) > len(view_files.HOSTILE)
    for row in rows:
        cells = re.sub(r"(`+) ?(.*?) ?\1(?!`)", "code", row)  # text in code spans is literal
        assert "<" not in cells and "@" not in cells
        assert "\x1b" not in row and "\u2028" not in row


# ---- invalid options ----------------------------------------------------------------------------------------------

@pytest.mark.parametrize("options, code, fragment", [
    (["-o", "out.pdf"], "E0101", "report.html or report.md"), ([], "E0101", "--output"),
    (["-o", "out.html", "--format", "pdf"], "E0101", "html or md"),
    (["-o", "out.html", "--size", "batch"], "E0101", "--size batch=1"),
    (["-o", "out.html", "--size", "batch=0"], "E0101", "--size batch=1"),
    (["-o", "out.html", "--size", "bitch=2"], "E0101", "batch"),
])
def test_invalid_options_are_refused(options, code, fragment, tmp_path):
    model = conv_model(tmp_path / "m.onnx")
    options = [str(tmp_path / option) if option.startswith("out.") else option for option in options]
    error = command.run("report", model, *options, code=2).stderr
    assert error.startswith(code) and fragment in error
    assert [path.name for path in tmp_path.iterdir()] == ["m.onnx"]


def test_the_summary_is_available_as_json(tmp_path):
    model = view_files.layers(100, tmp_path / "m.onnx")
    summary = command.run_json("report", model, "-o", tmp_path / "r.html")
    assert (summary["nodes"], summary["covered"]) == (100, 98)
    assert summary["size"] == (tmp_path / "r.html").stat().st_size
