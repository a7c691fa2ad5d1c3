// The data that the command put into the page, and values that are needed often. Modules stand in depth-first order, so
// everything below one is a range of rows. A page of a million nodes opens in seconds because lists are typed arrays,
// what is not seen at first is made when it is asked for (`once`), and evidence is unpacked a piece at a time.
'use strict';

const data = JSON.parse(document.getElementById('whence-data').textContent);
const nodes = data.nodes;
const nodeCount = nodes.name.length;
const modules = data.modules.path.map((path, row) => {
  const of = data.modules;
  return { path, type: of.types[of.type[row]], parent: of.parent[row], aliases: of.aliases[row] ?? [],
    calls: of.calls[row], own: of.own[row], total: of.total[row], parameters: of.parameters[row],
    trainable: of.trainable[row], operations: of.operations[row], uncounted: of.uncounted[row],
    unsized: of.unsized[row], silent: of.silent[row] ?? '', recorded: of.recorded[row] ?? null,
    coverage: of.coverage.slice(data.confidences.length * row, data.confidences.length * (row + 1)) };
});
const confidences = data.confidences;
const UNATTRIBUTED = confidences.length - 1;

// Nodes that name no module get a row of their own behind all others: never the root's.
const withoutModule = nodes.module.includes(null) ? modules.length : -1;
if (withoutModule >= 0) {
  const count = nodes.module.filter((row) => row === null).length;
  modules.push({ path: '(no module)', type: '', parent: null, aliases: [], calls: null, own: count, total: count,
    parameters: 0, trainable: null, operations: 0, uncounted: count, unsized: 0, coverage: confidences.map((_, i) =>
      (i === UNATTRIBUTED ? count : 0)), silent: '', recorded: null, apart: true });
}

const moduleOf = nodes.module.map((row) => (row === null ? withoutModule : row));
const once = (make) => {
  let made;
  return () => (made ??= make());
};

// Lists of places by owner: `ownerOf(i)` of each of `count` places, null for none. The result gives one owner's list.
function listsBy(owners, count, ownerOf) {
  const first = new Uint32Array(owners + 1);
  for (let i = 0; i < count; i++) if (ownerOf(i) !== null) first[ownerOf(i) + 1]++;
  for (let i = 0; i < owners; i++) first[i + 1] += first[i];
  const places = new Uint32Array(first[owners]);
  const filled = first.slice();
  for (let i = 0; i < count; i++) if (ownerOf(i) !== null) places[filled[ownerOf(i)]++] = i;
  return (owner) => places.subarray(first[owner], first[owner + 1]);
}

const children = listsBy(modules.length, modules.length, (row) => modules[row].parent);
const nodesOf = listsBy(modules.length, nodeCount, (node) => moduleOf[node]);

// The row behind the last one below each module.
const endOf = modules.map((_, row) => row + 1);
for (let row = modules.length - 1; row >= 0; row--) {
  const parent = modules[row].parent;
  if (parent !== null) endOf[parent] = Math.max(endOf[parent], endOf[row]);
}
const isBelow = (row, module) => module <= row && row < endOf[module];
const levelOf = [];
modules.forEach((module, row) => { levelOf[row] = module.parent === null ? 0 : levelOf[module.parent] + 1; });

// Calls visit(other node, value) for each value that a node reads, or that others read of it; -1 is the interface.
const edgesTo = once(() => listsBy(nodeCount, data.edges.length / 3, (i) => data.edges[3 * i + 1]));
const edgesFrom = once(() => listsBy(nodeCount, data.edges.length / 3, (i) => data.edges[3 * i]));
const inputsTo = once(() => listsBy(nodeCount, data.inputs.length / 2, (i) => data.inputs[2 * i + 1]));
const outputsFrom = once(() => listsBy(nodeCount, data.outputs.length / 2, (i) => data.outputs[2 * i]));
function eachRead(node, visit) {
  for (const i of edgesTo()(node)) visit(data.edges[3 * i], data.edges[3 * i + 2]);
  for (const i of inputsTo()(node)) visit(-1, data.inputs[2 * i]);
}
function eachReader(node, visit) {
  for (const i of edgesFrom()(node)) visit(data.edges[3 * i + 1], data.edges[3 * i + 2]);
  for (const i of outputsFrom()(node)) visit(-1, data.outputs[2 * i + 1]);
}
function listed(each, node) {
  const list = [];
  each(node, (other, value) => list.push([other, value]));
  return list;
}

const shapeOf = (value) => data.shape_texts[data.shapes[value]];

const nodeByName = once(() => {
  const byName = new Map();
  nodes.name.forEach((name, node) => { if (!byName.has(name)) byName.set(name, node); });
  return byName;
});
const moduleByPath = once(() => new Map(modules.map((module, row) => [module.path, row])));

// The keys of all nodes are the larger part of the page, so each piece is unpacked when one of its nodes is asked for.
const unpacked = new Map();
function evidencePiece(piece) {
  if (!unpacked.has(piece)) {
    const text = atob(document.getElementById(`whence-evidence-${piece}`).textContent);
    unpacked.set(piece, JSON.parse(inflated(Uint8Array.from(text, (character) => character.charCodeAt(0)))));
  }
  return unpacked.get(piece);
}
function evidenceOf(node) {
  const evidence = evidencePiece(Math.floor(node / data.piece));
  const [reason, rule, several, operations, keys] = evidence.nodes[node % data.piece];
  const text = (number) => evidence.texts[number];
  return {
    reason: text(reason), rule: text(rule), modules: several.map(text),
    operations: operations.map(([index, op, scope, source]) => ({
      index, op: text(op), source: source.map(text),
      scope: scope.map(([path, type, call]) => ({ path: text(path), type: text(type), call })),
    })),
    keys: keys.map(text),
  };
}
