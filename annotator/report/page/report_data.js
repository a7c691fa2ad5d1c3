// The data of a report: figures of modules, the graph's edges, shapes, and the evidence of each node.

Object.assign(nodes, { call: column('nodes-call'), source: column('nodes-source'),
  operations: once(() => column('nodes-operations')) });
const values = new Texts('values', data.values);
const UNATTRIBUTED = states.length - 1;

const moduleColumns = once(() => Object.fromEntries(['type', 'calls', 'own', 'total', 'parameters', 'trainable',
  'operations', 'uncounted', 'unsized', 'states'].map((name) => [name, column(`modules-${name}`)])));

function namedModuleAt(row) {
  const [of, few] = [moduleColumns(), data.modules];
  return { path: paths.at(row), type: few.types[of.type[row]], parent: parentOf[row] < 0 ? null : parentOf[row],
    aliases: few.aliases[row] ?? [], calls: optional(of.calls, row), own: of.own[row], total: of.total[row],
    parameters: of.parameters[row], trainable: optional(of.trainable, row), operations: of.operations[row],
    uncounted: of.uncounted[row], unsized: of.unsized[row], silent: few.silent[row] ?? '',
    recorded: few.recorded[row] ?? null, states: states.map((_, i) => of.states[i * few.count + row]) };
}
function nodesWithoutModule() {
  const count = moduleOf.reduce((found, row) => found + (row === withoutModule ? 1 : 0), 0);
  return { path: '(no module)', type: '', parent: null, aliases: [], calls: null, own: count, total: count,
    parameters: 0, trainable: null, operations: 0, uncounted: count, unsized: 0, states: states.map((_, i) =>
      (i === UNATTRIBUTED ? count : 0)), silent: '', recorded: null, apart: true };
}

// The edges of the graph. eachRead() calls visit(producer, value) for each input of a node, eachReader() calls
// visit(consumer, value) for each reader of its outputs; -1 is an input or output of the graph.
const edges = once(() => {
  const [from, to, reads, makes] = ['edges-from', 'edges-to', 'inputs-node', 'outputs-node'].map(column);
  return { from, to, value: column('edges-value'), input: column('inputs-value'), output: column('outputs-value'),
    byReader: listsBy(nodeCount, to), byMaker: listsBy(nodeCount, from), inputs: listsBy(nodeCount, reads),
    outputs: listsBy(nodeCount, makes) };
});
function eachRead(node, visit) {
  const { from, value, input, byReader, inputs } = edges();
  byReader.each(node, (i) => visit(from[i], value[i]));
  inputs.each(node, (i) => visit(-1, input[i]));
}
function eachReader(node, visit) {
  const { to, value, output, byMaker, outputs } = edges();
  byMaker.each(node, (i) => visit(to[i], value[i]));
  outputs.each(node, (i) => visit(-1, output[i]));
}
function listed(each, node) {
  const list = [];
  each(node, (other, value) => list.push([other, value]));
  return list;
}

const shapeNumbers = once(() => column('values-shape'));
const shapeOf = (value) => data.shape_texts[shapeNumbers()[value]];

// Unpacks the evidence of a node with its piece: the keys of all nodes are the largest part of the page.
const evidencePieces = [];
function evidenceOf(node) {
  const number = Math.floor(node / data.piece);
  const evidence = (evidencePieces[number] ??= unpackedJson(packed(`evidence-${number}`)));
  const [reason, rule, several, operations, keys] = evidence.nodes[node % data.piece];
  const text = (place) => evidence.texts[place];
  return {
    reason: text(reason), rule: text(rule), modules: several.map(text),
    operations: operations.map(([index, op, scope, source]) => ({
      index, op: text(op), source: source.map(text),
      scope: scope.map(([path, type, call]) => ({ path: text(path), type: text(type), call })),
    })),
    keys: keys.map(text),
  };
}

const coveredOf = (counts) => counts[0] + counts[1] + counts[2];
// Returns the weakest confidence that occurs, which colours a box of several nodes.
const weakest = (counts) => counts.reduce((found, count, i) => (count > 0 ? i : found), 0);

// Returns the number of operations. A sum that omits nodes without sizes is not shown: it would be far too low.
function operationsText(module) {
  const { operations: known, uncounted, unsized } = module;
  if (unsized > 0) return data.unsized;
  if (known === 0 && uncounted > 0) return 'unknown';
  return (uncounted > 0 ? '≥ ' : '') + short(known);
}

// Returns what the tree's row of a module says to a screen reader.
const moduleSummary = (module) =>
  `${counted(module.total, 'node')}, ${percent(coveredOf(module.states), sum(module.states)) || 'none'} covered`;

const nodeText = (node) => `${names.at(node)} ${data.operators[nodes.op[node]]}`;

// The number at the right end of a module's row in the tree.
const moduleFigure = (module) => (module.total > 0 ? grouped(module.total) : '');
