// The data that the command wrote into the page, and derived values. Modules are in depth-first order, so everything
// below a module is a range of rows. A page of a million nodes opens in a second or two because its data is packed:
// columns of numbers become typed arrays at the start; texts and evidence are unpacked in pieces on first use, and
// derived values are computed on first use (`once`).
'use strict';

const data = JSON.parse(document.getElementById('whence-data').textContent);
const confidences = data.confidences;
const UNATTRIBUTED = confidences.length - 1;

const once = (make) => {
  let value;
  return () => (value ??= make());
};

const packed = (id) => document.getElementById(`whence-${id}`);
function unpackedBytes(element, size) {
  const text = atob(element.textContent);
  const bytes = new Uint8Array(text.length);
  for (let i = 0; i < text.length; i++) bytes[i] = text.charCodeAt(i);
  return inflated(bytes, size);
}
const unpackedJson = (element) => JSON.parse(new TextDecoder('latin1').decode(unpackedBytes(element)));

// Unpacks a column of non-negative numbers: integers are stored as differences to the previous one, doubles directly.
const ARRAYS = { 1: Uint8Array, 2: Uint16Array, 4: Uint32Array, 8: Float64Array };
function column(name) {
  const element = packed(`column-${name}`);
  const [width, count] = [Number(element.dataset.width), Number(element.dataset.count)];
  const numbers = new ARRAYS[width](unpackedBytes(element, width * count).buffer);
  if (width < 8) for (let i = 1; i < count; i++) numbers[i] += numbers[i - 1];
  return numbers;
}
// Reads a column in which 0 means null and other numbers are incremented by 1.
const optional = (numbers, i) => (numbers[i] === 0 ? null : numbers[i] - 1);
// Converts a column of optional numbers to integers, with `none` for null.
const indices = (numbers, none) => Int32Array.from(numbers, (number) => (number === 0 ? none : number - 1));

// A list of texts, unpacked in pieces on first use.
class Texts {
  constructor(name, count) {
    Object.assign(this, { name, length: count, pieces: [] });
  }

  piece(number) {
    return (this.pieces[number] ??= unpackedJson(packed(`text-${this.name}-${number}`)));
  }

  at(i) {
    return this.piece(Math.floor(i / data.piece))[i % data.piece];
  }

  all() {
    return Array.from({ length: Math.ceil(this.length / data.piece) }, (_, number) => this.piece(number)).flat();
  }
}

const nodeCount = data.nodes;
const names = new Texts('names', nodeCount);
const values = new Texts('values', data.values);
const nodes = { op: column('nodes-op'), confidence: column('nodes-confidence'), call: column('nodes-call'),
  source: column('nodes-source'), operations: once(() => column('nodes-operations')) };

// Nodes without a module have a separate row after all others; they are not counted for the root.
const namedModule = column('nodes-module');
const withoutModule = namedModule.includes(0) ? data.modules.count : -1;
const moduleOf = indices(namedModule, withoutModule);
const moduleCount = data.modules.count + (withoutModule >= 0 ? 1 : 0);

const paths = new Texts('paths', data.modules.count);
const parentOf = new Int32Array(moduleCount).fill(-1);  // -1: none
parentOf.set(indices(column('modules-parent'), -1));
const moduleColumns = once(() => Object.fromEntries(['type', 'calls', 'own', 'total', 'parameters', 'trainable',
  'operations', 'uncounted', 'unsized', 'coverage'].map((name) => [name, column(`modules-${name}`)])));

const modules = [];  // cache of moduleAt()
function moduleAt(row) {
  return (modules[row] ??= row === withoutModule ? nodesWithoutModule() : namedModuleAt(row));
}
function namedModuleAt(row) {
  const [of, few] = [moduleColumns(), data.modules];
  return { path: paths.at(row), type: few.types[of.type[row]], parent: parentOf[row] < 0 ? null : parentOf[row],
    aliases: few.aliases[row] ?? [], calls: optional(of.calls, row), own: of.own[row], total: of.total[row],
    parameters: of.parameters[row], trainable: optional(of.trainable, row), operations: of.operations[row],
    uncounted: of.uncounted[row], unsized: of.unsized[row], silent: few.silent[row] ?? '',
    recorded: few.recorded[row] ?? null, coverage: confidences.map((_, i) => of.coverage[i * few.count + row]) };
}
function nodesWithoutModule() {
  const count = moduleOf.reduce((found, row) => found + (row === withoutModule ? 1 : 0), 0);
  return { path: '(no module)', type: '', parent: null, aliases: [], calls: null, own: count, total: count,
    parameters: 0, trainable: null, operations: 0, uncounted: count, unsized: 0, coverage: confidences.map((_, i) =>
      (i === UNATTRIBUTED ? count : 0)), silent: '', recorded: null, apart: true };
}
const modulePaths = () => (withoutModule < 0 ? paths.all() : [...paths.all(), moduleAt(withoutModule).path]);

// Groups the indices of `ownerOf` by owner, without -1. Returns a function that gives an owner's list of indices.
function listsBy(owners, ownerOf) {
  const first = new Uint32Array(owners + 1);
  for (let i = 0; i < ownerOf.length; i++) if (ownerOf[i] >= 0) first[ownerOf[i] + 1]++;
  for (let i = 0; i < owners; i++) first[i + 1] += first[i];
  const places = new Uint32Array(first[owners]);
  const filled = first.slice();
  for (let i = 0; i < ownerOf.length; i++) if (ownerOf[i] >= 0) places[filled[ownerOf[i]]++] = i;
  const list = (owner) => places.subarray(first[owner], first[owner + 1]);
  list.each = (owner, visit) => {
    for (let i = first[owner]; i < first[owner + 1]; i++) visit(places[i]);
  };
  list.count = (owner) => first[owner + 1] - first[owner];
  return list;
}

const children = listsBy(moduleCount, parentOf);
const nodesOf = listsBy(moduleCount, moduleOf);
const topRows = [];
for (let row = 0; row < moduleCount; row++) if (parentOf[row] < 0) topRows.push(row);

// For each module, the row after its last descendant, and its depth.
const endOf = new Int32Array(moduleCount);
const levelOf = new Uint16Array(moduleCount);
for (let row = moduleCount - 1; row >= 0; row--) {
  endOf[row] = Math.max(endOf[row], row + 1);
  const parent = parentOf[row];
  if (parent >= 0) endOf[parent] = Math.max(endOf[parent], endOf[row]);
}
for (let row = 0; row < moduleCount; row++) if (parentOf[row] >= 0) levelOf[row] = levelOf[parentOf[row]] + 1;
const isBelow = (row, module) => module <= row && row < endOf[module];

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

const nodeByName = once(() => {
  const byName = new Map();
  names.all().forEach((name, node) => { if (!byName.has(name)) byName.set(name, node); });
  return byName;
});
const moduleByPath = once(() => new Map(modulePaths().map((path, row) => [path, row])));

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
