// Selects the modules and nodes to show, by search, operator type, confidence and coverage. A module is shown if
// something below it is shown, or if the search matches it.

const filter = { words: [], operator: -1, confidences: confidences.map(() => true), covered: '' };

const lower = (text) => text.toLowerCase();
const nodeText = once(() => names.all().map((name, node) => lower(`${name} ${data.operators[nodes.op[node]]}`)));
const moduleText = once(() => modulePaths().map((path, row) => {
  const { type, aliases } = moduleAt(row);
  return lower(`${path} ${type} ${aliases.join(' ')}`);
}));

const isFiltering = () => filter.words.length > 0 || filter.operator >= 0 || filter.covered !== '' ||
  filter.confidences.includes(false);
// Returns true for filters that leave few nodes: their modules are opened.
const opensModules = () => filter.words.length > 0 || filter.operator >= 0;

function coverageFits(row) {
  if (filter.covered === '') return true;
  const counts = moduleAt(row).coverage;
  const [covered, all] = [coveredOf(counts), sum(counts)];
  switch (filter.covered) {
    case 'partly': return covered < all;
    case 'nothing': return covered === 0 && all > 0;
    default: return covered === all && all > 0;
  }
}

// Returns {nodes, modules: shown or not; found: modules with a match below; nodeHits, moduleHits: the matches}.
function applyFilter() {
  const none = { nodeHits: new Set(), moduleHits: new Set() };
  const everything = new Uint8Array(moduleCount).fill(1);
  if (!isFiltering()) {
    return { ...none, nodes: new Uint8Array(nodeCount).fill(1), modules: everything, found: everything };
  }
  const holds = (text) => filter.words.every((word) => text.includes(word));
  const named = new Uint8Array(moduleCount);
  if (filter.words.length > 0) moduleText().forEach((text, row) => { named[row] = holds(text) ? 1 : 0; });
  const within = named.slice();
  for (let row = 0; row < moduleCount; row++) if (parentOf[row] >= 0 && within[parentOf[row]]) within[row] = 1;

  const bare = filter.operator < 0 && !filter.confidences.includes(false);
  const kept = { ...none, nodes: new Uint8Array(nodeCount), modules: new Uint8Array(moduleCount),
    found: new Uint8Array(moduleCount) };
  const keep = (row, found) => {
    for (let at = row; at >= 0 && !(kept.modules[at] && kept.found[at] >= found); at = parentOf[at]) {
      kept.modules[at] = 1;
      kept.found[at] |= found;
    }
  };
  for (let node = 0; node < nodeCount; node++) {
    const row = moduleOf[node];
    const own = filter.words.length === 0 || holds(nodeText()[node]);
    const fits = filter.confidences[nodes.confidence[node]] &&
      (filter.operator < 0 || nodes.op[node] === filter.operator) && coverageFits(row);
    if (!fits || !(own || within[row])) continue;
    kept.nodes[node] = 1;
    if (own) kept.nodeHits.add(node);
    keep(row, own ? 1 : 0);
  }
  for (let row = 0; row < moduleCount; row++) {
    const isMatch = bare && (filter.words.length === 0 || within[row]) && coverageFits(row);
    if (isMatch || (named[row] && kept.modules[row])) {
      keep(row, 0);
      if (named[row]) {
        kept.moduleHits.add(row);
        if (parentOf[row] >= 0) keep(parentOf[row], 1);
      }
    }
  }
  return kept;
}
