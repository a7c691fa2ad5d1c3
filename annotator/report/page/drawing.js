// Draws the graph of the selected module as SVG. Arrow keys move from item to item along edges and layers, so that it
// can be used without a mouse. The page's own scripts provide
//   graphOf(module, page)        {items, edges: [from, to, ...], total, first, drawn}: `drawn` of `total` things are on this
//                                page, from number `first`
//   layOutGraph(graph, sizes)    as layOut() returns it, with `behind`: further SVG elements, drawn first
//   itemLook(item), edgeLook(edge), pageOfNode(module, node)

const canvas = document.getElementById('canvas');
const drawing = { module: 0, page: 0, zoom: 1, fitted: true, graph: null, layout: null, items: [], edges: [],
  onnode: null, onmodule: null };

const ITEMS_AT_ONCE = 250;
const NAME_WIDTH = 7.4; // approximate width of a letter
const FAINT_WIDTH = 6;
const MARGIN = 10;
const ITEM_WIDTH = 230;
const READABLE = 0.8; // the least zoom at which names can be read
const OPERATOR_WIDTH = 800; // only longer operator names are cut

// Shortens a name in the middle if it does not fit, as names of values differ at both ends.
function cut(text, width, letter) {
  const room = Math.floor((width - MARGIN) / letter);
  if (text.length <= room) return text;
  const half = Math.floor((room - 1) / 2);
  return `${text.slice(0, half)}…${text.slice(text.length - half)}`;
}

// Shortens a path at its start, as modules of one parent differ at the end.
function cutStart(text, width, letter) {
  const room = Math.max(1, Math.floor((width - MARGIN) / letter));
  return text.length <= room ? text : `…${text.slice(text.length - room + 1)}`;
}

function drawItem(item, look, size, at, index) {
  const group = make('g', { class: `item ${look.kind}`, tabindex: index === 0 ? '0' : '-1', role: 'button',
    'aria-label': look.ariaLabel, transform: `translate(${at.x - size.width / 2} ${at.y - size.height / 2})` },
  make('title', {}, look.title),
  make('rect',
    { width: size.width, height: size.height, rx: item.kind === 'node' ? 5 : item.kind === 'box' ? 3 : 14 }));
  const lines = look.below === '' ? 1 : 2;
  const half = size.width / 2;
  group.append(make('text',
    { class: item.kind === 'port' ? '' : 'name', x: half, y: lines === 1 ? size.height / 2 + 4 : 16,
    'text-anchor': 'middle' }, cut(look.top, size.width, NAME_WIDTH)));
  if (lines === 2) {
    group.append(make('text', { class: 'faint', x: half, y: 31, 'text-anchor': 'middle' },
      item.kind === 'node' || item.kind === 'box' ? cut(look.below, size.width, FAINT_WIDTH) :
        look.way + cutStart(look.below.slice(look.way.length), size.width - look.way.length * FAINT_WIDTH,
          FAINT_WIDTH)));
  }
  group.addEventListener('click', () => openItem(index));
  group.addEventListener('focus', () => lightEdges(index));
  group.addEventListener('mouseenter', () => lightEdges(index));
  return group;
}

function routeOf(points) {
  const start = points[0];
  let path = `M${start.x} ${start.y + start.height / 2}`;
  let [x, y] = [start.x, start.y + start.height / 2];
  points.slice(1).forEach((point, i) => {
    const last = i === points.length - 2;
    const to = last ? point.y - point.height / 2 - 5 : point.y - point.height / 2;
    const half = (to - y) / 2;
    path += `C${x} ${y + half} ${point.x} ${to - half} ${point.x} ${to}`;
    [x, y] = [point.x, to];
  });
  return path;
}

// Draws an edge. The layout reverses an upward edge, so its arrowhead is at the start.
function drawEdge(edge, route) {
  const look = edgeLook(edge);
  return make('path', { class: `edge${route.back ? ' back' : ''}${look.kind}`, d: routeOf(route.points),
    'marker-end': route.back ? null : 'url(#head)', 'marker-start': route.back ? 'url(#head)' : null },
  make('title', {}, look.title));
}

function lightEdges(index) {
  drawing.graph.edges.forEach(([from, to], i) => {
    drawing.edges[i].classList.toggle('lit', from === index || to === index);
  });
}

// Opens the node or module of an item; a port opens the node at its other end.
function openItem(index) {
  const item = drawing.graph.items[index];
  if (item.kind === 'node') drawing.onnode(item.node);
  else if (item.kind === 'box') drawing.onmodule(item.module);
  else if (item.other >= 0) drawing.onnode(item.other);
}

function draw(module, page = 0) {
  Object.assign(drawing, { module, page });
  const graph = graphOf(module, page);
  const looks = graph.items.map(itemLook);
  const widthOf = (look) =>
    Math.max(64, look.top.length * NAME_WIDTH + 2 * MARGIN, look.below.length * FAINT_WIDTH + 2 * MARGIN);
  const sizes = looks.map((look, i) => ({
    width: graph.items[i].kind !== 'node' ? Math.min(ITEM_WIDTH, widthOf(look)) :
      Math.max(Math.min(ITEM_WIDTH, widthOf(look)),
        Math.min(OPERATOR_WIDTH, look.top.length * NAME_WIDTH + 2 * MARGIN)),
    height: look.below === '' ? 26 : 40,
  }));
  const layout = layOutGraph(graph, sizes);
  Object.assign(drawing, { graph, layout });
  drawing.edges = graph.edges.map((edge, i) => drawEdge(edge, layout.edges[i]));
  drawing.items = graph.items.map((item, i) => drawItem(item, looks[i], sizes[i], layout.items[i], i));
  const head = make('marker', { id: 'head', viewBox: '0 0 8 8', refX: 3, refY: 4, markerWidth: 8, markerHeight: 8,
    markerUnits: 'userSpaceOnUse',
    orient: 'auto-start-reverse' }, make('path', { class: 'head', d: 'M0 0L8 4L0 8z' }));
  const svg = make('svg', { viewBox: `-8 -8 ${layout.width + 16} ${layout.height + 16}`, role: 'group',
    'aria-label': `Graph of ${pathText(moduleAt(module).path)}` }, make('defs', {}, head), ...(layout.behind ?? []), ...drawing.edges,
    ...drawing.items);
  canvas.replaceChildren(svg);
  tellDrawn(graph);
  fit();
}

function tellDrawn(graph) {
  const pages = Math.ceil(graph.total / ITEMS_AT_ONCE);
  document.getElementById('drawn').textContent = graph.total === 0 ? 'no nodes' :
    pages > 1 ? `${grouped(graph.first + 1)} to ${grouped(graph.first + graph.drawn)} of ${grouped(graph.total)}` :
      counted(graph.total, 'item');
  const before = document.getElementById('before');
  const after = document.getElementById('after');
  before.hidden = after.hidden = pages < 2;
  before.disabled = drawing.page === 0;
  after.disabled = drawing.page + 1 >= pages;
  document.getElementById('up').disabled = moduleAt(drawing.module).parent === null;
}

function setZoom(zoom, fitted = false) {
  drawing.zoom = Math.min(4, Math.max(0.05, zoom));
  drawing.fitted = fitted;
  const svg = canvas.querySelector('svg');
  svg.style.width = `${(drawing.layout.width + 16) * drawing.zoom}px`;
  svg.style.height = `${(drawing.layout.height + 16) * drawing.zoom}px`;
}

function fitWidth() {
  const room = Math.max(100, canvas.clientWidth - 28);
  setZoom(Math.min(1, room / (drawing.layout.width + 16)), true);
}

function fit() {
  fitWidth();
  canvas.scrollTop = 0;
  canvas.scrollLeft = Math.max(0, (canvas.scrollWidth - canvas.clientWidth) / 2);
}

// Marks a node's items and scrolls the first to the middle at a readable zoom. Turns to their page first.
function markNode(node) {
  const page = node === null ? undefined : pageOfNode(drawing.module, node);
  if (page !== undefined && page !== drawing.page) draw(drawing.module, page);
  const isChosen = drawing.graph.items.map((item) => page !== undefined && item.kind === 'node' && item.node === node);
  drawing.items.forEach((group, i) => group.classList.toggle('chosen', isChosen[i]));
  const index = isChosen.indexOf(true);
  if (index < 0) return;
  lightEdges(index);
  bringIntoSight(index);
}

// Scrolls an item into view, and enlarges a graph that is too small to be read. Scrolls only the canvas.
function bringIntoSight(index) {
  if (drawing.zoom < READABLE) setZoom(1);
  const item = drawing.items[index].getBoundingClientRect();
  const sight = canvas.getBoundingClientRect();
  const isInside = item.left >= sight.left && item.right <= sight.right && item.top >= sight.top &&
    item.bottom <= sight.bottom;
  if (isInside) return;
  canvas.scrollBy(item.left + item.width / 2 - (sight.left + sight.width / 2),
    item.top + item.height / 2 - (sight.top + sight.height / 2));
}

function focusItem(index) {
  if (index === undefined || index < 0) return;
  drawing.items.forEach((group, i) => group.setAttribute('tabindex', i === index ? '0' : '-1'));
  drawing.items[index].focus({ preventScroll: true });
  bringIntoSight(index);
}

function neighbourInRow(index, step) {
  const { y } = drawing.layout.items[index];
  const row = drawing.layout.items.map((_, i) => i).filter((i) => Math.abs(drawing.layout.items[i].y - y) < 1)
    .sort((a, b) => drawing.layout.items[a].x - drawing.layout.items[b].x);
  return row[row.indexOf(index) + step];
}

canvas.addEventListener('keydown', (event) => {
  const index = drawing.items.indexOf(document.activeElement);
  const zooms = { '+': 1.25, '=': 1.25, '-': 0.8 };
  if (event.key in zooms) return setZoom(drawing.zoom * zooms[event.key]);
  if (event.key === '0') return fit();
  if (index < 0) return undefined;
  const moves = {
    ArrowDown: () => focusItem(drawing.graph.edges.find(([from]) => from === index)?.[1]),
    ArrowUp: () => focusItem(drawing.graph.edges.find(([, to]) => to === index)?.[0]),
    ArrowLeft: () => focusItem(neighbourInRow(index, -1)),
    ArrowRight: () => focusItem(neighbourInRow(index, 1)),
    Enter: () => openItem(index),
    ' ': () => openItem(index),
    Backspace: () => moduleAt(drawing.module).parent !== null && drawing.onmodule(moduleAt(drawing.module).parent),
  };
  if (!(event.key in moves)) return undefined;
  event.preventDefault();
  moves[event.key]();
  return undefined;
});
canvas.addEventListener('wheel', (event) => {
  if (!event.ctrlKey) return;
  event.preventDefault();
  setZoom(drawing.zoom * (event.deltaY < 0 ? 1.1 : 0.9));
}, { passive: false });
// Fits the graph again when the width changes, unless the user has zoomed.
new ResizeObserver(() => {
  if (drawing.layout === null || !drawing.fitted || canvas.clientWidth === 0) return;
  fitWidth();
  canvas.querySelector('.item.chosen')?.scrollIntoView({ block: 'nearest', inline: 'nearest' });
}).observe(canvas);
