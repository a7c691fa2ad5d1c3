// The data that the command put into the page, and values that are needed often, computed once. Modules stand in
// depth-first order, so everything below one is a range of rows.
'use strict';

const data = JSON.parse(document.getElementById('whence-data').textContent);
const nodes = data.nodes;
const nodeCount = nodes.name.length;
const modules = data.modules;
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
const children = modules.map(() => []);
const nodesOf = modules.map(() => []);
modules.forEach((module, row) => { if (module.parent !== null) children[module.parent].push(row); });
moduleOf.forEach((row, node) => nodesOf[row].push(node));

// The row behind the last one below each module.
const endOf = modules.map((_, row) => row + 1);
for (let row = modules.length - 1; row >= 0; row--) {
  const parent = modules[row].parent;
  if (parent !== null) endOf[parent] = Math.max(endOf[parent], endOf[row]);
}
const isBelow = (row, module) => module <= row && row < endOf[module];
const levelOf = [];
modules.forEach((module, row) => { levelOf[row] = module.parent === null ? 0 : levelOf[module.parent] + 1; });

// Edges by node, as [other node, value] and, for the interface, [-1, value].
const readsOf = nodes.name.map(() => []);
const readBy = nodes.name.map(() => []);
for (let i = 0; i < data.edges.length; i += 3) {
  const [from, to, value] = [data.edges[i], data.edges[i + 1], data.edges[i + 2]];
  readsOf[to].push([from, value]);
  readBy[from].push([to, value]);
}
for (let i = 0; i < data.inputs.length; i += 2) readsOf[data.inputs[i + 1]].push([-1, data.inputs[i]]);
for (let i = 0; i < data.outputs.length; i += 2) readBy[data.outputs[i]].push([-1, data.outputs[i + 1]]);

const nodeByName = new Map();
nodes.name.forEach((name, node) => { if (!nodeByName.has(name)) nodeByName.set(name, node); });
const moduleByPath = new Map(modules.map((module, row) => [module.path, row]));

// The keys of all nodes are the larger part of the page, so they are read when the first one is asked for.
let evidence = null;
function evidenceOf(node) {
  evidence ??= JSON.parse(document.getElementById('whence-evidence').textContent);
  const [reason, rule, several, operations, keys] = evidence.nodes[node];
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
