// The graph of one module of a report: its own nodes, each direct submodule as a box, values from and to other modules
// as ports.

// Returns the items of the module, {node} or {module}, in the order of their first nodes. Caches the last module, as a
// selection needs its items several times.
let lastItems = { module: -1 };
function itemsOf(module) {
  if (lastItems.module === module) return lastItems;
  const items = [];
  const boxes = new Map();
  const itemOfNode = new Int32Array(nodeCount).fill(-1);
  for (let node = 0; node < nodeCount; node++) {
    if (!isBelow(moduleOf[node], module)) continue;
    const child = childHolding(module, moduleOf[node]);
    if (child < 0) {
      itemOfNode[node] = items.length;
      items.push({ kind: 'node', node });
      continue;
    }
    if (!boxes.has(child)) {
      boxes.set(child, items.length);
      items.push({ kind: 'box', module: child });
    }
    itemOfNode[node] = boxes.get(child);
  }
  lastItems = { module, items, itemOfNode };
  return lastItems;
}

// Returns {items, edges: [from, to, values], total, first} of one page; `first` is the number of its first item.
function graphOf(module, page) {
  const all = itemsOf(module);
  const first = page * ITEMS_AT_ONCE;
  const items = all.items.slice(first, first + ITEMS_AT_ONCE);
  const drawn = items.length;
  const isDrawn = (item) => item >= first && item < first + ITEMS_AT_ONCE;
  const itemOf = (node) => (node < 0 ? -1 : all.itemOfNode[node]);
  const edges = new Map();
  const join = (from, to, value) => {
    const key = from * 1e6 + to;
    if (!edges.has(key)) edges.set(key, [from, to, new Set()]);
    edges.get(key)[2].add(value);
  };
  const links = [];
  for (let node = 0; node < nodeCount; node++) {
    const item = all.itemOfNode[node];
    if (!isDrawn(item)) continue;
    eachRead(node, (from, value) => {
      const other = itemOf(from);
      if (other === item) return;
      if (isDrawn(other)) join(other - first, item - first, value);
      else links.push(['in', value, from, item - first]);
    });
    eachReader(node, (to, value) => {
      if (!isDrawn(itemOf(to))) links.push(['out', value, to, item - first]);
    });
  }
  const keyOf = portKeys(links, (node) => moduleOf[node]);
  const ports = new Map();
  for (const link of links) {
    const [kind, value, other, item] = link;
    const key = keyOf(link);
    if (!ports.has(key)) {
      ports.set(key, items.length);
      items.push({ kind, value, other, values: new Set(), key });
    }
    const at = ports.get(key);
    items[at].values.add(value);
    if (kind === 'in') join(at, item, value);
    else join(item, at, value);
  }
  return { items, edges: [...edges.values()].map(([from, to, values]) => [from, to, [...values]]),
    total: all.items.length, first, drawn };
}

const layOutGraph = (graph, sizes) => layOut(sizes, graph.edges);

// Returns the page of the module's graph with the node; undefined if the node is not below the module.
function pageOfNode(module, node) {
  const item = itemsOf(module).itemOfNode[node];
  return item < 0 ? undefined : Math.floor(item / ITEMS_AT_ONCE);
}

// Returns the shape of the node's first output that is read.
function firstShape(node) {
  const first = listed(eachReader, node)[0];
  return first === undefined ? '' : shapeOf(first[1]);
}

// Returns two lines of text, a tooltip and a class for an item.
function itemLook(item) {
  if (item.kind === 'node') {
    const name = nodeLabel(item.node);
    const last = name.slice(name.lastIndexOf('/') + 1) || name;
    const operator = operatorOf(item.node);
    const shape = firstShape(item.node);
    return { top: operator, below: shown(shape) || (last === operator ? '' : last), title: `${operator}\n${name}`,
      kind: `node k${nodes.state[item.node]}`,
      ariaLabel: `${operator} ${name}, ${states[nodes.state[item.node]]}` };
  }
  if (item.kind === 'box') {
    const module = moduleAt(item.module);
    return { top: module.parent === null ? pathText(module.path) : lastSegment(module.path),
      below: `${shown(className(module.type)) || 'module'} · ${counted(module.total, 'node')}`,
      title: `${pathText(module.path)}\n${shown(module.type)}\n` +
        `${percent(coveredOf(module.states), sum(module.states))} covered`,
      kind: `box k${weakest(module.states)}`,
      ariaLabel: `module ${pathText(module.path)}, ${counted(module.total, 'node')}` };
  }
  return portLook(item, shapeOf, (node) => pathText(moduleAt(moduleOf[node]).path));
}

function edgeLook(edge) {
  const named = (value) => `${shown(values.at(value))} ${shown(shapeOf(value))}`;
  return { kind: '', title: edge[2].slice(0, 12).map(named).join('\n') };
}
