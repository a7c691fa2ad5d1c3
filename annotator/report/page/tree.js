// The tree of modules and their nodes. Only visible rows are elements; other rows are numbers in a list. Keys and roles
// follow the tree pattern of the ARIA Authoring Practices, with aria-activedescendant.

const ROW_HEIGHT = 26;
const treeElement = document.getElementById('tree');
const treeSpace = make('div', { class: 'space', role: 'presentation' });
treeElement.append(treeSpace);

const tree = {
  open: new Set(), closedWhileFiltering: new Set(), kept: null, rows: [], active: 0, selected: null, onselect: null,
};
// Opens levels at the start while the rows fit on one screen.
const ROWS_AT_FIRST = 40;
let rowsOpen = 1;
for (let level = 0; level < 8; level++) {
  const own = [];
  let more = 0;
  for (let row = 0; row < moduleCount; row++) {
    if (levelOf[row] !== level || children.count(row) === 0) continue;
    own.push(row);
    more += children.count(row) + nodesOf.count(row);
  }
  if (level > 0 && rowsOpen + more > ROWS_AT_FIRST) break;
  rowsOpen += more;
  for (const i of own) tree.open.add(i);
}

const sameItem = (a, b) => a !== null && b !== null && a.isNode === b.isNode && a.id === b.id;

function isOpen(row) {
  if (isFiltering() && opensModules()) return Boolean(tree.kept.found[row]) !== tree.closedWhileFiltering.has(row);
  return tree.open.has(row);
}

function setOpen(row, open) {
  if (isFiltering() && opensModules()) {
    if (Boolean(tree.kept.found[row]) === open) tree.closedWhileFiltering.delete(row);
    else tree.closedWhileFiltering.add(row);
  } else if (open) {
    tree.open.add(row);
  } else {
    tree.open.delete(row);
  }
}

const canOpen = (row) => children(row).some((child) => tree.kept.modules[child]) ||
  nodesOf(row).some((node) => tree.kept.nodes[node]);

function listRows(row, level, into) {
  if (!tree.kept.modules[row]) return;
  const opens = canOpen(row);
  into.push({ isNode: false, id: row, level, opens, place: 0, count: 0 });
  if (!opens || !isOpen(row)) return;
  const first = into.length;
  const own = [];
  for (const child of children(row)) {
    if (tree.kept.modules[child]) own.push(into.length), listRows(child, level + 1, into);
  }
  for (const node of nodesOf(row)) {
    if (!tree.kept.nodes[node]) continue;
    own.push(into.length);
    into.push({ isNode: true, id: node, level: level + 1, opens: false, place: 0, count: 0 });
  }
  own.forEach((at, i) => { into[at].place = i + 1, into[at].count = own.length; });
  return first;
}

function refreshTree() {
  const active = tree.rows[tree.active] ?? null;
  tree.rows = [];
  for (const row of topRows) listRows(row, 0, tree.rows);
  tree.active = Math.max(0, tree.rows.findIndex((item) => sameItem(item, active)));
  treeSpace.style.height = `${tree.rows.length * ROW_HEIGHT}px`;
  drawRows();
}

function filterTree() {
  tree.closedWhileFiltering.clear();
  tree.kept = applyFilter();
  treeElement.scrollTop = 0;
  refreshTree();
}

function moduleRow(item) {
  const module = moduleAt(item.id);
  const top = module.parent === null;
  return [
    make('span', { class: 'label', title: pathText(module.path) },
      make('b', {}, top ? pathText(module.path) : lastSegment(module.path))),
    make('span', { class: 'kind' }, shown(className(module.type)) + (module.silent ? `  ${module.silent}` : '')),
    make('span', { class: 'count' }, shown(moduleFigure(module))),
    statesBar(module.states),
  ];
}

function nodeRow(item) {
  const state = nodes.state[item.id];
  return [
    make('span', { class: `dot f${state}`, title: states[state] }),
    make('span', { class: 'label operator', title: nodeLabel(item.id) }, operatorOf(item.id)),
    make('span', { class: 'kind tail mono' }, make('bdi', { dir: 'ltr' }, nodeLabel(item.id))),
  ];
}

function ariaText(item) {
  if (item.isNode) return `${operatorOf(item.id)} ${nodeLabel(item.id)}, ${states[nodes.state[item.id]]}`;
  const module = moduleAt(item.id);
  const name = `${pathText(module.path)} ${shown(className(module.type))}`.trim();
  return `${name}, ${moduleSummary(module)}`;
}

function drawRow(item, index) {
  const element = make('div', {
    role: 'treeitem', id: `row-${index}`, class: `row${index === tree.active ? ' active' : ''}` +
      `${!item.isNode && moduleAt(item.id).total === 0 ? ' silent' : ''}`,
    'aria-level': item.level + 1, 'aria-selected': String(sameItem(item, tree.selected)), 'aria-label': ariaText(item),
    'aria-setsize': item.count || 1, 'aria-posinset': item.place || 1,
    'aria-expanded': item.opens ? String(isOpen(item.id)) : null,
  }, make('span', { class: 'twisty', 'aria-hidden': 'true' }, item.opens ? (isOpen(item.id) ? '▼' : '▶') : ''),
  ...(item.isNode ? nodeRow(item) : moduleRow(item)));
  element.style.top = `${index * ROW_HEIGHT}px`;
  element.style.paddingLeft = `${4 + item.level * 14}px`;
  return element;
}

function drawRows() {
  const first = Math.max(0, Math.floor(treeElement.scrollTop / ROW_HEIGHT) - 8);
  const last = Math.min(tree.rows.length,
    Math.ceil((treeElement.scrollTop + treeElement.clientHeight) / ROW_HEIGHT) + 8);
  const drawn = [];
  for (let i = first; i < last; i++) drawn.push(drawRow(tree.rows[i], i));
  if (tree.active < first || tree.active >= last) {
    if (tree.rows[tree.active]) drawn.push(drawRow(tree.rows[tree.active], tree.active));
  }
  treeSpace.replaceChildren(...drawn);
  if (tree.rows.length > 0) treeElement.setAttribute('aria-activedescendant', `row-${tree.active}`);
  else treeElement.removeAttribute('aria-activedescendant');
}

function moveTo(index) {
  if (tree.rows.length === 0) return;
  tree.active = Math.min(tree.rows.length - 1, Math.max(0, index));
  const top = tree.active * ROW_HEIGHT;
  if (top < treeElement.scrollTop) treeElement.scrollTop = top;
  const bottom = top + ROW_HEIGHT - treeElement.clientHeight;
  if (bottom > treeElement.scrollTop) treeElement.scrollTop = bottom;
  drawRows();
}

function toggle(index) {
  const item = tree.rows[index];
  if (!item || !item.opens) return;
  setOpen(item.id, !isOpen(item.id));
  refreshTree();
}

function selectRow(index) {
  const item = tree.rows[index];
  if (!item) return;
  moveTo(index);
  tree.onselect(item.isNode, item.id);
}

// Opens the modules above an item and moves to it, without calling `onselect`.
function revealInTree(isNode, id) {
  tree.selected = { isNode, id };
  const above = (row) => { for (let at = row; at >= 0; at = parentOf[at]) setOpen(at, true); };
  if (isNode) above(moduleOf[id]);
  else above(parentOf[id]);
  refreshTree();
  const index = tree.rows.findIndex((item) => sameItem(item, tree.selected));
  if (index >= 0) moveTo(index);
}

function parentIndex(index) {
  const level = tree.rows[index].level;
  for (let at = index - 1; at >= 0; at--) if (tree.rows[at].level < level) return at;
  return index;
}

const treeKeys = {
  ArrowDown: (at) => moveTo(at + 1),
  ArrowUp: (at) => moveTo(at - 1),
  Home: () => moveTo(0),
  End: () => moveTo(tree.rows.length - 1),
  PageDown: (at) => moveTo(at + Math.floor(treeElement.clientHeight / ROW_HEIGHT) - 1),
  PageUp: (at) => moveTo(at - Math.floor(treeElement.clientHeight / ROW_HEIGHT) + 1),
  ArrowRight: (at) =>
    (tree.rows[at].opens && !isOpen(tree.rows[at].id) ? toggle(at) : tree.rows[at].opens && moveTo(at + 1)),
  ArrowLeft: (at) => (tree.rows[at].opens && isOpen(tree.rows[at].id) ? toggle(at) : moveTo(parentIndex(at))),
  Enter: (at) => selectRow(at),
  ' ': (at) => selectRow(at),
  '*': (at) => {
    const level = tree.rows[at].level;
    const siblings = tree.rows.filter((item) => item.level === level && item.opens);
    for (const item of siblings) setOpen(item.id, true);
    refreshTree();
  },
};
treeElement.addEventListener('keydown', (event) => {
  if (!(event.key in treeKeys) || tree.rows.length === 0 || event.ctrlKey || event.metaKey || event.altKey) return;
  event.preventDefault();
  treeKeys[event.key](tree.active);
});
treeElement.addEventListener('click', (event) => {
  const row = event.target.closest('.row');
  if (row === null) return;
  const index = Number(row.id.slice(4));
  if (event.target.closest('.twisty') !== null) toggle(index);
  else selectRow(index);
});
treeElement.addEventListener('dblclick', (event) => {
  const row = event.target.closest('.row');
  if (row !== null && event.target.closest('.twisty') === null) toggle(Number(row.id.slice(4)));
});
let drawingRows = false;
treeElement.addEventListener('scroll', () => {
  if (drawingRows) return;
  drawingRows = true;
  requestAnimationFrame(() => {
    drawingRows = false;
    drawRows();
  });
});
new ResizeObserver(() => drawRows()).observe(treeElement);
