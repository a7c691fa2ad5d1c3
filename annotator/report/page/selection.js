// The selection of a module or node, search, tabs and the address, which contains the selection so that it can be
// linked. The page's own scripts provide showFacts(module), showEvidence(node) and the tabs.

const byId = (id) => document.getElementById(id);
const factsElement = byId('facts');
const evidenceElement = byId('evidence');

const isNarrow = matchMedia('(max-width: 900px)');

// Scrolls to the selected module if the panes are stacked.
function showContent() {
  if (isNarrow.matches) byId('content').scrollIntoView({ block: 'start' });
}

function chooseModule(row) {
  showTab('module');
  hideEvidence();
  revealInTree(false, row);
  showFacts(row);
  draw(row);
  showContent();
  setAddress('m', moduleAt(row).path);
}

function chooseNode(node) {
  showTab('module');
  revealInTree(true, node);
  showEvidence(node);  // first, because it reduces the graph's width
  if (drawing.module !== moduleOf[node] || drawing.graph === null) {
    showFacts(moduleOf[node]);
    draw(moduleOf[node]);
  }
  showContent();
  markNode(node);
  setAddress('n', String(node));
}

// Adds a name and its content to a definition list.
function entry(list, name, ...content) {
  list.append(make('dt', {}, name), make('dd', {}, ...content));
}

const rowLink = (row) => link(pathText(moduleAt(row).path), () => chooseModule(row));
const moduleLink = (path) => (moduleByPath().has(path) ? rowLink(moduleByPath().get(path)) : pathText(path));

// Shows elements in the panel of the chosen node.
function fillEvidence(...parts) {
  evidenceElement.replaceChildren(
    make('button', { class: 'close', 'aria-label': 'Close', onclick: hideEvidence }, '✕'), ...parts);
  evidenceElement.hidden = false;
  evidenceElement.scrollTop = 0;
}

function hideEvidence() {
  evidenceElement.hidden = true;
  if (drawing.graph !== null) markNode(null);
}

function setAddress(kind, text) {
  history.replaceState(null, '', `#${kind}=${encodeURIComponent(text)}`);
}

// The row to show first: for a file that was not annotated, the nodes without a module.
const firstModule = () => (moduleAt(0).total === 0 && withoutModule >= 0 ? withoutModule : 0);

function followAddress() {
  const [kind, text] = location.hash.slice(1).split('=');
  let id = '';
  try {
    id = decodeURIComponent(text ?? '');
  } catch {
    return chooseModule(firstModule());
  }
  const node = Number(id);
  if (kind === 'n' && id !== '' && Number.isInteger(node) && node >= 0 && node < nodeCount) return chooseNode(node);
  return chooseModule((kind === 'm' ? moduleByPath().get(id) : undefined) ?? firstModule());
}

// ---- tabs ----

const tabNames = ['module'];

const unfilledTabs = new Map();

// Adds a tab after the others. Calls fill(panel) when the tab is first shown: a list of 100,000 nodes takes time.
function addTab(name, title, fill) {
  tabNames.push(name);
  byId('tabs').append(make('button', { role: 'tab', id: `tab-${name}`, 'aria-controls': name, 'aria-selected': 'false',
    tabindex: '-1' }, title));
  const panel = make('section', { id: name, class: 'page', role: 'tabpanel', 'aria-labelledby': `tab-${name}`,
    hidden: true });
  byId('content').append(panel);
  unfilledTabs.set(name, () => fill(panel));
}

function showTab(name) {
  unfilledTabs.get(name)?.();
  unfilledTabs.delete(name);
  for (const each of tabNames) {
    byId(each).hidden = each !== name;
    byId(`tab-${each}`).setAttribute('aria-selected', String(each === name));
    byId(`tab-${each}`).tabIndex = each === name ? 0 : -1;
  }
}

function connectTabs() {
  tabNames.forEach((name, i) => {
    byId(`tab-${name}`).onclick = () => showTab(name);
    byId(`tab-${name}`).onkeydown = (event) => {
      const step = { ArrowLeft: -1, ArrowRight: 1 }[event.key];
      if (step === undefined) return;
      const other = tabNames[(i + step + tabNames.length) % tabNames.length];
      showTab(other);
      byId(`tab-${other}`).focus();
    };
  });
}

// ---- filters ----

// Fills the legend with a button for each state, which hides its nodes. `counts` has the nodes of each state.
function fillLegend(counts, hidesEmpty = false) {
  byId('legend').replaceChildren(...states.map((name, i) => (hidesEmpty && counts[i] === 0 ? null :
    make('button', { class: 'chip', 'aria-pressed': String(filter.states[i]), onclick: (event) => {
      filter.states[i] = !filter.states[i];
      event.currentTarget.setAttribute('aria-pressed', String(filter.states[i]));
      refilter();
    } }, make('span', { class: `dot f${i}` }), `${name} ${grouped(counts[i])}`))).filter((chip) => chip !== null));
}

function fillFilters() {
  const counts = data.operators.map((name, op) => ({ name, op, count: 0 }));
  for (const op of nodes.op) counts[op].count++;
  counts.sort((a, b) => (a.name < b.name ? -1 : 1));
  byId('operator').replaceChildren(make('option', { value: '-1' }, 'all operators'),
    ...counts.map(({ name, op, count }) => make('option', { value: op }, `${shown(name)} (${grouped(count)})`)));
  byId('operator').addEventListener('change', (event) => {
    filter.operator = Number(event.target.value);
    refilter();
  });
  let searched = '';
  const search = () => {
    const text = byId('search').value;
    if (text === searched) return;
    searched = text;
    filter.words = lower(text).split(/\s+/).filter(Boolean);
    refilter();
  };
  let later = 0;
  byId('search').addEventListener('input', () => {
    clearTimeout(later);
    later = setTimeout(search, 60);
  });
  byId('search').addEventListener('keydown', (event) => {
    if (event.key !== 'ArrowDown' && event.key !== 'Enter') return;
    event.preventDefault();
    clearTimeout(later);  // Enter may be pressed before the delayed search starts
    search();
    if (event.key === 'Enter' && isFiltering()) selectRow(tree.rows.findIndex(isHit));
    treeElement.focus();
  });
}

const isHit = (item) => (item.isNode ? tree.kept.nodeHits : tree.kept.moduleHits).has(item.id);

function refilter() {
  filterTree();
  const hits = [[tree.kept.moduleHits.size, 'module'], [tree.kept.nodeHits.size, 'node']]
    .filter(([count]) => count > 0).map(([count, name]) => counted(count, name));
  byId('hits').textContent = !isFiltering() ? '' : hits.join(', ') || 'nothing matches';
}

// ---- start ----

function connect() {
  byId('to-tree').onclick = () => {
    byId('side').scrollIntoView({ block: 'start' });
    treeElement.focus({ preventScroll: true });
  };
  tree.onselect = (isNode, id) => (isNode ? chooseNode(id) : chooseModule(id));
  drawing.onnode = chooseNode;
  drawing.onmodule = chooseModule;
  byId('up').onclick = () => chooseModule(moduleAt(drawing.module).parent);
  byId('larger').onclick = () => setZoom(drawing.zoom * 1.25);
  byId('smaller').onclick = () => setZoom(drawing.zoom * 0.8);
  byId('fit').onclick = fit;
  byId('before').onclick = () => draw(drawing.module, drawing.page - 1);
  byId('after').onclick = () => draw(drawing.module, drawing.page + 1);
  connectTabs();
  document.addEventListener('keydown', (event) => {
    if (event.key === '/' && !event.target.matches('input, select')) {
      event.preventDefault();
      byId('search').focus();
    } else if (event.key === 'Escape' && !byId('evidence').hidden) {
      hideEvidence();
      treeElement.focus();
    }
  });
}

// Called last by the page's own script, after it has filled the header and its tabs.
function start() {
  fillFilters();
  connect();
  refilter();
  const isLinked = location.hash !== '';
  followAddress();
  if (!isLinked) document.querySelector('main').scrollTop = 0;
  window.addEventListener('hashchange', followAddress);
  // The time in milliseconds until the page was usable, for measurements.
  document.documentElement.dataset.ready = String(Math.round(performance.now()));
}
