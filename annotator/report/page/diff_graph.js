// The graphs of one module in both files, side by side: nodes that correspond are on one line, at the same height.

const HEADING = 34;
const BETWEEN = 90;
const PARTNERS_DRAWN = 8; // nodes in other modules that replaced a node

// Returns {lines: [{items: [left, right]}], of: by side the line of each node, -1 for none}. An item is a node, or a box
// for a direct submodule. Caches the last module.
let lastLines = { module: -1 };
function linesOf(module) {
  if (lastLines.module === module) return lastLines;
  const lines = [];
  const of = SIDES.map(() => new Int32Array(nodeCount).fill(-1));
  const boxes = new Map();
  const put = (line, side, item) => { line.items[side] ??= item; };
  const newLine = () => { lines.push({ items: [null, null], number: lines.length }); return lines.at(-1); };
  const isInside = (side, node) => moduleOn[side][node] >= 0 && isBelow(moduleOn[side][node], module);
  const partners = [];
  for (let node = 0; node < nodeCount; node++) {
    let own = null;
    for (const side of SIDES) {
      if (!isInside(side, node)) continue;
      const child = childHolding(module, moduleOn[side][node]);
      if (child < 0) {
        own ??= newLine();
        put(own, side, { kind: 'node', node, side });
        of[side][node] = own.number;
      } else {
        if (!boxes.has(child)) boxes.set(child, newLine());
        put(boxes.get(child), side, { kind: 'box', module: child, side });
        of[side][node] = boxes.get(child).number;
      }
    }
    if (own === null) continue;
    for (const side of SIDES) {  // the counterpart is in another module
      if (isOn(side, node) && of[side][node] < 0) {
        put(own, side, { kind: 'node', node, side, elsewhere: true });
        of[side][node] = own.number;
      }
    }
    if (nodes.fusion[node] >= 0) partners.push(node);
  }
  // Nodes of other modules that replaced own nodes, or that own nodes replaced.
  for (const node of partners) {
    for (const other of partnersOf(node).slice(0, PARTNERS_DRAWN)) {
      for (const side of SIDES) {
        if (!isOn(side, other) || of[side][other] >= 0 || isOn(side, node)) continue;
        const line = newLine();
        put(line, side, { kind: 'node', node: other, side, elsewhere: true });
        of[side][other] = line.number;
      }
    }
  }
  lastLines = { module, ...joinFusions(lines, of, partners) };
  return lastLines;
}

// Puts the first new node of a fusion on the line of the last replaced node.
function joinFusions(lines, of, partners) {
  const target = lines.map((_, i) => i);
  for (const fusion of new Set(partners.map((node) => nodes.fusion[node]))) {
    const only = SIDES.map((side) => [...fusionNodes(fusion)].map((node) => of[side][node])
      .filter((line) => line >= 0 && lines[line].items[1 - side] === null && lines[line].items[side].kind === 'node'));
    const [left, right] = [only[0].at(-1), only[1][0]];
    if (left === undefined || right === undefined) continue;
    lines[left].items[1] = lines[right].items[1];
    target[right] = left;
  }
  const place = new Map();
  const kept = lines.filter((_, i) => target[i] === i);
  kept.forEach((line, i) => place.set(line.number, i));
  return { lines: kept, of: of.map((numbers) => numbers.map((line) => (line < 0 ? -1 : place.get(target[line])))) };
}

// Returns the page of the module's graphs with the node; undefined if the node is not on them.
function pageOfNode(module, node) {
  const line = Math.max(...SIDES.map((side) => linesOf(module).of[side][node]));
  return line < 0 ? undefined : Math.floor(line / ITEMS_AT_ONCE);
}

function graphOf(module, page) {
  const all = linesOf(module);
  const first = page * ITEMS_AT_ONCE;
  const lines = all.lines.slice(first, first + ITEMS_AT_ONCE);
  const [items, lineOf, edges] = [[], [], []];
  const itemAt = lines.map(() => [-1, -1]);
  lines.forEach((line, i) => {
    for (const side of SIDES) {
      if (line.items[side] === null) continue;
      itemAt[i][side] = items.length;
      items.push(line.items[side]);
      lineOf.push(i);
    }
  });
  const portLines = new Map();
  for (const side of SIDES) addEdges(side, { all, first, itemAt, items, lineOf, edges, portLines });
  const drawn = lines.length;
  return { items, edges, lineOf, lineCount: drawn + portLines.size, total: all.lines.length, first, drawn };
}

// Adds the edges and ports of one side.
function addEdges(side, { all, first, itemAt, items, lineOf, edges, portLines }) {
  const itemOf = (node) => (node < 0 ? -1 : itemAt[all.of[side][node] - first]?.[side] ?? -1);
  const joined = new Map();
  const join = (from, to, value) => {
    const key = from * 1e6 + to;
    if (!joined.has(key)) joined.set(key, [from, to, new Set()]);
    joined.get(key)[2].add(value);
  };
  const links = [];
  for (let node = 0; node < nodeCount; node++) {
    if (all.of[side][node] < 0) continue;
    const item = itemOf(node);
    if (item < 0) continue;
    const hasPorts = items[item].elsewhere !== true;
    eachReadOn(side, node, (from, value) => {
      const other = itemOf(from);
      if (other === item) return;
      if (other >= 0) join(other, item, value);
      else if (hasPorts) links.push(['in', value, from, item]);
    });
    if (!hasPorts) continue;
    eachReaderOn(side, node, (to, value) => { if (itemOf(to) < 0) links.push(['out', value, to, item]); });
  }
  const keyOf = portKeys(links, (node) => moduleOn[side][node]);
  const ports = new Map();
  for (const link of links) {
    const [kind, value, other, item] = link;
    const key = keyOf(link);
    if (!ports.has(key)) {
      if (!portLines.has(key)) portLines.set(key, itemAt.length + portLines.size);
      ports.set(key, items.length);
      items.push({ kind, value, other, values: new Set(), key, side });
      lineOf.push(portLines.get(key));
    }
    const at = ports.get(key);
    items[at].values.add(value);
    if (kind === 'in') join(at, item, value);
    else join(item, at, value);
  }
  for (const [from, to, set] of joined.values()) edges.push([from, to, [...set], side]);
}

// Lays out both graphs in common layers: a line is one vertex of a joint graph.
function layOutGraph(graph, sizes) {
  const { items, edges, lineOf } = graph;
  const { layer, back } = layering(graph.lineCount, edges.map(([from, to]) => [lineOf[from], lineOf[to]]));
  const heights = layerHeights(sizes, lineOf.map((line) => layer[line]));
  const placed = { items: [], edges: [], width: 0, height: 0, behind: [] };
  for (const side of SIDES) {
    const [own, ownEdges] = [[], []];
    const place = new Map();
    items.forEach((item, i) => { if (item.side === side) place.set(i, own.length), own.push(i); });
    edges.forEach((edge, i) => { if (edge[3] === side) ownEdges.push(i); });
    const ownBack = new Set();
    ownEdges.forEach((edge, i) => { if (back.has(edge)) ownBack.add(i); });
    const laid = placeItems(own.map((i) => sizes[i]),
      ownEdges.map((edge) => [place.get(edges[edge][0]), place.get(edges[edge][1])]),
      { layer: own.map((i) => layer[lineOf[i]]), back: ownBack }, heights);
    const left = side === 0 ? 0 : placed.width + BETWEEN;
    const heading = `${LETTERS[side]}  ${shown(files[side])}`;
    const shift = Math.max(0, heading.length * NAME_WIDTH - laid.width) / 2;
    const moved = (point) => ({ ...point, x: point.x + left + shift, y: point.y + HEADING });
    own.forEach((i, at) => { placed.items[i] = moved(laid.items[at]); });
    ownEdges.forEach((edge, at) => {
      placed.edges[edge] = { points: laid.edges[at].points.map(moved), back: laid.edges[at].back };
    });
    placed.width = left + laid.width + 2 * shift;
    placed.height = Math.max(placed.height, laid.height + HEADING);
    placed.behind.push(make('text', { class: 'name heading', x: left + shift + laid.width / 2, y: 14,
      'text-anchor': 'middle' }, heading));
    if (own.length === 0) {
      placed.behind.push(make('text', { class: 'faint', x: left + shift, y: HEADING + 14, 'text-anchor': 'middle' },
        'no node here'));
    }
  }
  placed.behind.push(...matchLines(graph, placed, sizes));
  return placed;
}

// Draws a line between the two items on each line of the layout.
function matchLines({ items, lineOf }, placed, sizes) {
  const pairs = new Map();
  items.forEach((item, i) => {
    if (!pairs.has(lineOf[i])) pairs.set(lineOf[i], [-1, -1]);
    pairs.get(lineOf[i])[item.side] = i;
  });
  return [...pairs.values()].filter(([left, right]) => left >= 0 && right >= 0 && items[left].kind !== 'in' &&
    items[left].kind !== 'out').map(([left, right]) => {
    const [from, to] = [placed.items[left], placed.items[right]];
    return make('path', { class: `match ${stateClass(items[right])}`,
      d: `M${from.x + sizes[left].width / 2} ${from.y}L${to.x - sizes[right].width / 2} ${to.y}` });
  });
}

const stateClass = (item) => (item.kind === 'box' ? `m${moduleAt(item.module).state}` : `k${nodes.state[item.node]}`);

// Returns two lines of text, a tooltip and a class for an item.
function itemLook(item) {
  if (item.kind === 'node') {
    const { node, side } = item;
    const [name, operator, shape] = [nameOn(side, node), operatorOf(node), sizeOn(side, node)];
    const last = name.slice(name.lastIndexOf('/') + 1) || name;
    const place = item.elsewhere === true ? moduleText(side, node) : null;
    const below = place !== null ? `in ${place}` : shown(shape) || (last === operator ? '' : last);
    return { top: operator, below, title: [operator, name, states[nodes.state[node]],
      ...details.at(node).split('\n').map(shown)].filter(Boolean).join('\n'),
    kind: `node k${nodes.state[node]}${place === null ? '' : ' elsewhere'}`,
    ariaLabel: `${LETTERS[side]}: ${operator} ${name}, ${states[nodes.state[node]]}` };
  }
  if (item.kind === 'box') {
    const module = moduleAt(item.module);
    const what = moduleStates[module.state];
    const count = counted(module.nodes[item.side], 'node');
    return { top: module.parent === null ? pathText(module.path) : lastSegment(module.path),
      below: `${shown(className(module.type)) || 'module'} · ${count}`,
      title: `${pathText(module.path)}\n${shown(module.type)}\n${what}`, kind: `box m${module.state}`,
      ariaLabel: `${LETTERS[item.side]}: module ${pathText(module.path)}, ${count}, ${what}` };
  }
  return portLook(item, (value) => shapeOn(item.side, value), (node) => moduleText(item.side, node));
}

const moduleText = (side, node) => (moduleOn[side][node] < 0 ? '(no module)' :
  pathText(moduleAt(moduleOn[side][node]).path));

function edgeLook([, , list, side]) {
  const named = (value) => `${shown(values.at(value))} ${shown(shapeOn(side, value))}`;
  return { kind: '', title: list.slice(0, 12).map(named).join('\n') };
}
