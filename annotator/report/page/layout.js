// Layered layout of a directed graph, top to bottom (Sugiyama, Tagawa, Toda 1981). Reverses edges that close cycles,
// assigns layers by longest path, splits long edges at waypoints that edges of one source share, reduces crossings by
// medians, and places items by least squares in the order of their layer. Independent of modules and HTML.

const LAYER_GAP = 40;
const ITEM_GAP = 18;

// Returns the indices of edges that close a cycle, as when a module is called again and reads its own result.
function backEdges(count, edges, outgoing) {
  const back = new Set();
  const state = new Uint8Array(count);
  for (let start = 0; start < count; start++) {
    if (state[start] !== 0) continue;
    const stack = [[start, 0]];
    state[start] = 1;
    while (stack.length > 0) {
      const top = stack[stack.length - 1];
      if (top[1] === outgoing[top[0]].length) {
        state[top[0]] = 2;
        stack.pop();
        continue;
      }
      const edge = outgoing[top[0]][top[1]++];
      const to = edges[edge][1];
      if (state[to] === 1) back.add(edge);
      else if (state[to] === 0) state[to] = 1, stack.push([to, 0]);
    }
  }
  return back;
}

// Assigns layers by the longest path from the sources, then moves each source down to just above its first reader.
function layersOf(count, pairs) {
  const after = Array.from({ length: count }, () => []);
  const waiting = new Int32Array(count);
  for (const [from, to] of pairs) after[from].push(to), waiting[to]++;
  const isSource = Array.from(waiting, (number) => number === 0);
  const layer = new Int32Array(count);
  const ready = [];
  for (let item = 0; item < count; item++) if (isSource[item]) ready.push(item);
  for (let at = 0; at < ready.length; at++) {
    for (const to of after[ready[at]]) {
      layer[to] = Math.max(layer[to], layer[ready[at]] + 1);
      if (--waiting[to] === 0) ready.push(to);
    }
  }
  for (let item = 0; item < count; item++) {
    if (!isSource[item] || after[item].length === 0) continue;
    layer[item] = Math.max(0, Math.min(...after[item].map((to) => layer[to])) - 1);
  }
  return layer;
}

// Adds a waypoint for each layer that edges of a source pass. Appends them to `sizes`, returns the route of each edge.
function addWaypoints(pairs, sizes, layer) {
  const known = new Map();
  const layerOf = [...layer];
  const routes = pairs.map(([from, to]) => {
    const route = [from];
    for (let at = layerOf[from] + 1; at < layerOf[to]; at++) {
      const key = `${from}:${at}`;
      if (!known.has(key)) {
        known.set(key, sizes.length);
        sizes.push({ width: 2, height: 0, waypoint: true });
        layerOf.push(at);
      }
      route.push(known.get(key));
    }
    route.push(to);
    return route;
  });
  return { routes, layerOf };
}

function neighbours(count, routes) {
  const above = Array.from({ length: count }, () => []);
  const below = Array.from({ length: count }, () => []);
  const seen = new Set();
  for (const route of routes) {
    for (let i = 0; i + 1 < route.length; i++) {
      const key = route[i] * count + route[i + 1];
      if (seen.has(key)) continue;
      seen.add(key);
      below[route[i]].push(route[i + 1]);
      above[route[i + 1]].push(route[i]);
    }
  }
  return { above, below };
}

function lowerCrossings(rows, above, below) {
  const place = [];
  const number = (row) => row.forEach((item, i) => { place[item] = i; });
  rows.forEach(number);
  const middle = (item, others) => {
    if (others.length === 0) return place[item];
    const places = others.map((other) => place[other]).sort((a, b) => a - b);
    const half = places.length >> 1;
    return places.length % 2 === 1 ? places[half] : (places[half - 1] + places[half]) / 2;
  };
  for (let sweep = 0; sweep < 8; sweep++) {
    const down = sweep % 2 === 0;
    for (let i = 0; i < rows.length; i++) {
      const row = rows[down ? i : rows.length - 1 - i];
      const wanted = new Map(row.map((item) => [item, middle(item, (down ? above : below)[item])]));
      row.sort((a, b) => wanted.get(a) - wanted.get(b) || place[a] - place[b]);
      number(row);
    }
  }
}

// Places a row as near as possible to the wanted positions while keeping order and distances, by pooling adjacent
// violators.
function placeRow(row, wanted, sizes, x) {
  let offset = 0;
  const blocks = [];
  const offsets = row.map((item, i) => {
    if (i > 0) {
      const gap = sizes[item].waypoint && sizes[row[i - 1]].waypoint ? ITEM_GAP / 2 : ITEM_GAP;
      offset += (sizes[row[i - 1]].width + sizes[item].width) / 2 + gap;
    }
    return offset;
  });
  row.forEach((item, i) => {
    const weight = sizes[item].waypoint ? 3 : 1;
    blocks.push({ sum: (wanted[i] - offsets[i]) * weight, weight, count: 1 });
    while (blocks.length > 1) {
      const [left, right] = blocks.slice(-2);
      if (left.sum / left.weight <= right.sum / right.weight) break;
      blocks.splice(-2, 2,
        { sum: left.sum + right.sum, weight: left.weight + right.weight, count: left.count + right.count });
    }
  });
  let i = 0;
  for (const block of blocks) {
    for (let k = 0; k < block.count; k++, i++) x[row[i]] = block.sum / block.weight + offsets[i];
  }
}

function placeRows(rows, sizes, above, below) {
  const x = new Float64Array(sizes.length);
  for (const row of rows) placeRow(row, row.map(() => 0), sizes, x);
  const mean = (others, otherwise) =>
    (others.length === 0 ? otherwise : others.reduce((a, b) => a + x[b], 0) / others.length);
  for (let sweep = 0; sweep < 8; sweep++) {
    const down = sweep % 2 === 0;
    for (let i = 0; i < rows.length; i++) {
      const row = rows[down ? i : rows.length - 1 - i];
      const side = down ? above : below;
      placeRow(row, row.map((item) => mean(side[item], x[item])), sizes, x);
    }
  }
  return x;
}

// Returns the layer of each item, and the indices of the edges that run upwards (`back`).
function layering(count, edges) {
  const outgoing = Array.from({ length: count }, () => []);
  edges.forEach(([from], edge) => outgoing[from].push(edge));
  const back = backEdges(count, edges, outgoing);
  const pairs = edges.map(([from, to], edge) => (back.has(edge) ? [to, from] : [from, to]));
  return { layer: layersOf(count, pairs.filter(([from, to]) => from !== to)), back };
}

// Returns the height of each layer.
function layerHeights(sizes, layer) {
  const heights = Array.from({ length: Math.max(-1, ...layer) + 1 }, () => 0);
  sizes.forEach((size, item) => { heights[layer[item]] = Math.max(heights[layer[item]], size.height); });
  return heights;
}

// Places items of sizes [{width, height}] with edges [[from, to]] in the given layers. Returns the centres of items, the
// points of each edge from top to bottom and whether it runs upwards (`back`), and the total size.
function placeItems(itemSizes, edges, { layer, back }, heights) {
  const sizes = [...itemSizes];
  const pairs = edges.map(([from, to], edge) => (back.has(edge) ? [to, from] : [from, to]));
  const { routes, layerOf } = addWaypoints(pairs, sizes, layer);
  const { above, below } = neighbours(sizes.length, routes);

  const rows = heights.map(() => []);
  layerOf.forEach((at, item) => rows[at].push(item));
  lowerCrossings(rows, above, below);
  const x = placeRows(rows, sizes, above, below);
  const y = new Float64Array(sizes.length);
  let top = 0;
  rows.forEach((row, at) => {
    for (const item of row) y[item] = top + heights[at] / 2;
    top += heights[at] + LAYER_GAP;
  });
  let [left, right] = [Infinity, -Infinity];
  sizes.forEach((size, item) => {
    left = Math.min(left, x[item] - size.width / 2);
    right = Math.max(right, x[item] + size.width / 2);
  });
  const point = (item) => ({ x: x[item] - left, y: y[item], height: sizes[item].height });
  return {
    items: itemSizes.map((_, item) => point(item)),
    edges: routes.map((route, edge) => ({ points: route.map(point), back: back.has(edge) })),
    width: itemSizes.length === 0 ? 0 : right - left, height: Math.max(0, top - LAYER_GAP),
  };
}

// Lays out items of sizes [{width, height}] with edges [[from, to]]: layering(), then placeItems().
function layOut(sizes, edges) {
  const layers = layering(sizes.length, edges);
  return placeItems(sizes, edges, layers, layerHeights(sizes, layers.layer));
}
