// The graph of one module: its own nodes, each direct submodule as a box, values from and to other modules as ports.

const ITEMS_AT_ONCE = 250;
const PORTS_AT_ONCE = 40;

// Returns the direct child of the module that contains the row; -1 if the row is the module itself.
function childHolding(module, row) {
  let at = row;
  while (at !== module && parentOf[at] !== module) at = parentOf[at];
  return at === module ? -1 : at;
}

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

// Returns the key that groups values into ports: a port for each value if there are few, else for each module on the
// other side, else for each direction.
function portKeys(links) {
  const keys = [
    ([kind, value]) => `${kind} ${value}`,
    ([kind, , other]) => `${kind} module ${other < 0 ? '' : moduleOf[other]}`,
    ([kind]) => kind,
  ];
  return keys.find((key) => new Set(links.map(key)).size <= PORTS_AT_ONCE) ?? keys[2];
}

// Returns {items, edges: [from, to, values], total, first} of one page; `first` is the number of its first item.
function moduleGraph(module, page) {
  const all = itemsOf(module);
  const first = page * ITEMS_AT_ONCE;
  const items = all.items.slice(first, first + ITEMS_AT_ONCE);
  const drawn = (item) => item >= first && item < first + ITEMS_AT_ONCE;
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
    if (!drawn(item)) continue;
    eachRead(node, (from, value) => {
      const other = itemOf(from);
      if (other === item) return;
      if (drawn(other)) join(other - first, item - first, value);
      else links.push(['in', value, from, item - first]);
    });
    eachReader(node, (to, value) => {
      if (!drawn(itemOf(to))) links.push(['out', value, to, item - first]);
    });
  }
  const keyOf = portKeys(links);
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
    total: all.items.length, first };
}
