// Controls the page: header, filters, tabs, and the selection of a module or node. The address contains the selection,
// so that it can be linked.

const byId = (id) => document.getElementById(id);

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

function setAddress(kind, text) {
  history.replaceState(null, '', `#${kind}=${encodeURIComponent(text)}`);
}

// The row to show first: for a file that was not annotated, the nodes without a module.
const firstModule = moduleAt(0).total === 0 && withoutModule >= 0 ? withoutModule : 0;

function followAddress() {
  const [kind, text] = location.hash.slice(1).split('=');
  let id = '';
  try {
    id = decodeURIComponent(text ?? '');
  } catch {
    return chooseModule(firstModule);
  }
  const node = Number(id);
  if (kind === 'n' && Number.isInteger(node) && node >= 0 && node < nodeCount) return chooseNode(node);
  return chooseModule((kind === 'm' ? moduleByPath().get(id) : undefined) ?? firstModule);
}

function showTab(name) {
  for (const each of ['module', 'findings']) {
    byId(each).hidden = each !== name;
    byId(`tab-${each}`).setAttribute('aria-selected', String(each === name));
    byId(`tab-${each}`).tabIndex = each === name ? 0 : -1;
  }
}

function fillHeader() {
  const all = data.coverage;
  document.title = `${shown(data.file)} – whence`;
  byId('file').textContent = shown(data.file);
  byId('headline').textContent =
    `${counted(nodeCount, 'node')}, ${percent(coveredOf(all), sum(all)) || '0 %'} covered` +
    `${data.producer.trim() === '' ? '' : `, producer ${shown(data.producer)}`}`;
  const found = data.findings.reduce((count, finding) => count + finding.items.length, 0);
  byId('tab-findings').textContent = found === 0 ? 'Findings' : `Findings (${grouped(found)})`;
  byId('legend').replaceChildren(...confidences.map((name, i) => make('button', { class: 'chip', 'aria-pressed': 'true',
    onclick: (event) => {
      filter.confidences[i] = !filter.confidences[i];
      event.currentTarget.setAttribute('aria-pressed', String(filter.confidences[i]));
      refilter();
    } }, make('span', { class: `dot f${i}` }), `${name} ${grouped(all[i])}`)));
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
  byId('covered').addEventListener('change', (event) => {
    filter.covered = event.target.value;
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
  for (const name of ['module', 'findings']) {
    byId(`tab-${name}`).onclick = () => showTab(name);
    byId(`tab-${name}`).onkeydown = (event) => {
      if (event.key !== 'ArrowLeft' && event.key !== 'ArrowRight') return;
      const other = name === 'module' ? 'findings' : 'module';
      showTab(other);
      byId(`tab-${other}`).focus();
    };
  }
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

fillHeader();
fillFilters();
fillFindings();
connect();
filterTree();
const isLinked = location.hash !== '';
followAddress();
if (!isLinked) document.querySelector('main').scrollTop = 0;
window.addEventListener('hashchange', followAddress);
// The time in milliseconds until the page was usable, for measurements.
document.documentElement.dataset.ready = String(Math.round(performance.now()));
