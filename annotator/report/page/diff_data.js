// The data of a comparison. A node of the page is a row: a node of the first file (side 0), of the second (side 1), or of
// both. Its state says what changed.

const SIDES = [0, 1];
const LETTERS = ['a', 'b'];
const EQUAL = 0;
const files = data.files;
const moduleStates = data.module_states;

const bySide = (name) => LETTERS.map((letter) => column(`${name}-${letter}`));
Object.assign(nodes, { fusion: indices(column('nodes-fusion'), -1), source: column('nodes-source'),
  confidence: once(() => bySide('nodes-confidence')), shape: bySide('nodes-shape') });
const namesBefore = new Texts('names-a', nodeCount);
const details = new Texts('details', nodeCount);
const values = new Texts('values', data.values);
const valueShapes = once(() => bySide('values-shape'));
const shapeOn = (side, value) => data.shape_texts[valueShapes()[side][value]];

// By side and node: the row of its module; ABSENT: the file lacks the node; NOWHERE: it has no module.
const ABSENT = -1;
const NOWHERE = -2;
const moduleOn = bySide('nodes-module').map((places) => Int32Array.from(places, (place) =>
  (place === 0 ? ABSENT : place > 1 ? place - 2 : withoutModule >= 0 ? withoutModule : NOWHERE)));
const isOn = (side, node) => moduleOn[side][node] !== ABSENT;

// The nodes that replaced others, and the replaced ones, by the number of their fusion.
const fusionNodes = listsBy(data.fusions, nodes.fusion);
const partnersOf = (node) => (nodes.fusion[node] < 0 ? [] :
  [...fusionNodes(nodes.fusion[node])].filter((other) => other !== node));

const nameOn = (side, node) => shown((side === 0 && namesBefore.at(node)) || names.at(node)) || '(no name)';
const sizeOn = (side, node) => data.shape_texts[nodes.shape[side][node]];

// The edges of both graphs: an end is a node, GRAPH, or LEFT_OUT.
const edgesOn = SIDES.map((side) => once(() => {
  const end = (code) => (code === 0 ? GRAPH : code === 1 ? LEFT_OUT : code - 2);
  const [from, to] = ['from', 'to'].map((name) => Int32Array.from(column(`edges-${LETTERS[side]}-${name}`), end));
  const owners = (ends) => ends.map((node) => Math.max(node, -1));
  return { from, to, value: column(`edges-${LETTERS[side]}-value`), byReader: listsBy(nodeCount, owners(to)),
    byMaker: listsBy(nodeCount, owners(from)) };
}));
function eachReadOn(side, node, visit) {
  const { from, value, byReader } = edgesOn[side]();
  byReader.each(node, (i) => visit(from[i], value[i]));
}
function eachReaderOn(side, node, visit) {
  const { to, value, byMaker } = edgesOn[side]();
  byMaker.each(node, (i) => visit(to[i], value[i]));
}

const moduleColumns = once(() => {
  const of = Object.fromEntries(['type', 'state', 'states'].map((name) => [name, column(`modules-${name}`)]));
  return { ...of, nodes: bySide('modules-nodes'), own: bySide('modules-own'), parameters: bySide('modules-parameters') };
});
function listedModuleAt(row) {
  const [of, few] = [moduleColumns(), data.modules];
  const counts = states.map((_, i) => of.states[i * few.listed + row]);
  const pair = (name) => SIDES.map((side) => of[name][side][row]);
  return { type: few.types[of.type[row]], typeBefore: few.other_types[row] ?? '', aliases: [], silent: '',
    nodes: pair('nodes'), own: pair('own'), parameters: pair('parameters'), states: counts, total: sum(counts),
    state: of.state[row], elsewhere: few.elsewhere[row] ?? [], modulesLeftOut: few.modules_left_out[row] ?? 0,
    rowsLeftOut: few.rows_left_out[row] ?? 0 };
}
const namedModuleAt = (row) => ({ ...listedModuleAt(row), path: paths.at(row),
  parent: parentOf[row] < 0 ? null : parentOf[row] });
const nodesWithoutModule = () => ({ ...listedModuleAt(withoutModule), path: '(no module)', parent: null, apart: true });

const nodeText = (node) => `${names.at(node)} ${namesBefore.at(node)} ${data.operators[nodes.op[node]]}`;

const arrow = (pair) => (pair[0] === pair[1] ? grouped(pair[1]) : `${grouped(pair[0])} → ${grouped(pair[1])}`);
const arrowOfNodes = (pair) => `${arrow(pair)} ${pair[0] === 1 && pair[1] === 1 ? 'node' : 'nodes'}`;
const moduleSummary = (module) => `${arrowOfNodes(module.nodes)}, ${moduleStates[module.state]}`;
