// The data that the command wrote into a page, and derived values: the tree of modules and their nodes. Modules are in depth-first order, so everything
// below a module is a range of rows. A page of a million nodes opens in a second or two because its data is packed:
// columns of numbers become typed arrays at the start; texts and evidence are unpacked in pieces on first use, and
// derived values are computed on first use (`once`).
'use strict';

const data = JSON.parse(document.getElementById('whence-data').textContent);
// A node is in one of these states, which have a colour each: its confidence in a report, its change in a comparison.
const states = data.states;

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
const nodes = { op: column('nodes-op'), state: column('nodes-state') };

// Nodes without a module have a separate row after all others; they are not counted for the root.
const namedModule = column('nodes-module');
const withoutModule = namedModule.includes(0) ? data.modules.count : -1;
const moduleOf = indices(namedModule, withoutModule);
const moduleCount = data.modules.count + (withoutModule >= 0 ? 1 : 0);

const paths = new Texts('paths', data.modules.count);
const parentOf = new Int32Array(moduleCount).fill(-1);  // -1: none
parentOf.set(indices(column('modules-parent'), -1));
// Returns {path, type, parent, aliases, total, silent, states: the number of nodes in each state}, and what the page's
// own scripts add in namedModuleAt() and nodesWithoutModule().
const modules = [];
function moduleAt(row) {
  return (modules[row] ??= row === withoutModule ? nodesWithoutModule() : namedModuleAt(row));
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

const nodeByName = once(() => {
  const byName = new Map();
  names.all().forEach((name, node) => { if (!byName.has(name)) byName.set(name, node); });
  return byName;
});
const moduleByPath = once(() => new Map(modulePaths().map((path, row) => [path, row])));
