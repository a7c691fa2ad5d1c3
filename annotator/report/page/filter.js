// Selects the modules and nodes to show, by search, operator type, state, and a condition on their module. A module is shown if
// something below it is shown, or if the search matches it.

const filter = { words: [], operator: -1, states: states.map(() => true), moduleFits: null };

const lower = (text) => text.toLowerCase();
const nodeTexts = once(() => names.all().map((_, node) => lower(nodeText(node))));
const moduleTexts = once(() => modulePaths().map((path, row) => {
  const { type, aliases } = moduleAt(row);
  return lower(`${path} ${type} ${aliases.join(' ')}`);
}));

const isFiltering = () => filter.words.length > 0 || filter.operator >= 0 || filter.moduleFits !== null ||
  filter.states.includes(false);
// Returns true for filters that leave few nodes: their modules are opened.
const opensModules = () => filter.words.length > 0 || filter.operator >= 0;

// Returns {nodes, modules: shown or not; found: modules with a match below; nodeHits, moduleHits: the matches}.
function applyFilter() {
  const none = { nodeHits: new Set(), moduleHits: new Set() };
  const everything = new Uint8Array(moduleCount).fill(1);
  if (!isFiltering()) {
    return { ...none, nodes: new Uint8Array(nodeCount).fill(1), modules: everything, found: everything };
  }
  const fitsModule = (row) => filter.moduleFits === null || filter.moduleFits(row);
  const holds = (text) => filter.words.every((word) => text.includes(word));
  const named = new Uint8Array(moduleCount);
  if (filter.words.length > 0) moduleTexts().forEach((text, row) => { named[row] = holds(text) ? 1 : 0; });
  const within = named.slice();
  for (let row = 0; row < moduleCount; row++) if (parentOf[row] >= 0 && within[parentOf[row]]) within[row] = 1;

  const bare = filter.operator < 0 && !filter.states.includes(false);
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
    const own = filter.words.length === 0 || holds(nodeTexts()[node]);
    const fits = filter.states[nodes.state[node]] &&
      (filter.operator < 0 || nodes.op[node] === filter.operator) && fitsModule(row);
    if (!fits || !(own || within[row])) continue;
    kept.nodes[node] = 1;
    if (own) kept.nodeHits.add(node);
    keep(row, own ? 1 : 0);
  }
  for (let row = 0; row < moduleCount; row++) {
    const isMatch = bare && (filter.words.length === 0 || within[row]) && fitsModule(row);
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
