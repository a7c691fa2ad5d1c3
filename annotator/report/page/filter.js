// The modules and nodes that are shown: search, operator type, confidence, coverage. A module stays while something below
// it does, or when its own name is searched for.

const filter = { words: [], operator: -1, confidences: confidences.map(() => true), covered: '' };

const lower = (text) => text.toLowerCase();
const nodeText = once(() => nodes.name.map((name, node) => lower(`${name} ${data.operators[nodes.op[node]]}`)));
const moduleText = once(() =>
  modules.map((module) => lower(`${module.path} ${module.type} ${module.aliases.join(' ')}`)));

const isFiltering = () => filter.words.length > 0 || filter.operator >= 0 || filter.covered !== '' ||
  filter.confidences.includes(false);
// Filters that leave few nodes open the modules that hold them.
const opensModules = () => filter.words.length > 0 || filter.operator >= 0;

function coverageFits(counts) {
  const [covered, all] = [coveredOf(counts), sum(counts)];
  switch (filter.covered) {
    case 'partly': return covered < all;
    case 'nothing': return covered === 0 && all > 0;
    case 'fully': return covered === all && all > 0;
    default: return true;
  }
}

// {nodes, modules: kept or not; found: modules with a match below; nodeHits, moduleHits: what matches itself}
function applyFilter() {
  const holds = (text) => filter.words.every((word) => text.includes(word));
  const named = modules.map((_, row) => filter.words.length > 0 && holds(moduleText()[row]));
  const within = modules.map((module, row) => named[row]);
  modules.forEach((module, row) => { if (module.parent !== null && within[module.parent]) within[row] = true; });

  const filtering = isFiltering();
  const bare = filter.operator < 0 && !filter.confidences.includes(false);
  const kept = { nodes: new Array(nodeCount), modules: new Array(modules.length).fill(false),
    found: new Array(modules.length).fill(false), nodeHits: new Set(), moduleHits: new Set() };
  const keep = (row, found) => {
    for (let at = row; at !== null && !(kept.modules[at] && kept.found[at] >= found); at = modules[at].parent) {
      kept.modules[at] = true;
      kept.found[at] ||= found;
    }
  };
  for (let node = 0; node < nodeCount; node++) {
    const row = moduleOf[node];
    const own = filter.words.length === 0 || holds(nodeText()[node]);
    const fits = filter.confidences[nodes.confidence[node]] &&
      (filter.operator < 0 || nodes.op[node] === filter.operator) && coverageFits(modules[row].coverage);
    kept.nodes[node] = fits && (own || within[row]);
    if (!kept.nodes[node]) continue;
    if (own && filtering) kept.nodeHits.add(node);
    keep(row, own);
  }
  modules.forEach((module, row) => {
    const wanted = bare && (filter.words.length === 0 || within[row]) && coverageFits(module.coverage);
    if (wanted || (named[row] && kept.modules[row])) {
      keep(row, false);
      if (named[row]) {
        kept.moduleHits.add(row);
        if (module.parent !== null) keep(module.parent, true);
      }
    }
  });
  return kept;
}
