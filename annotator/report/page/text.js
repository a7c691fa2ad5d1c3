// Elements and texts. Names come from untrusted files: they reach the page only as text, and invisible characters and
// direction marks are shown as escapes.

const UNSEEN = /[\u0000-\u001f\u007f-\u009f\u00ad\u061c\u180e\u200b-\u200f\u2028-\u202e\u2060-\u206f\ufeff\ufff9-\uffff]/g;

function shown(text) {
  return String(text).replace(UNSEEN, (character) =>
    (character === '\n' ? '\\n' : `\\u${character.charCodeAt(0).toString(16).padStart(4, '0')}`));
}

const SVG = 'http://www.w3.org/2000/svg';

// Creates an element: make('div', {class: 'a', onclick: f}, 'text', element). Strings become text nodes.
function make(tag, options = {}, ...content) {
  const svg = SVG_TAGS.has(tag);
  const element = svg ? document.createElementNS(SVG, tag) : document.createElement(tag);
  for (const [name, value] of Object.entries(options)) {
    if (name.startsWith('on')) element.addEventListener(name.slice(2), value);
    else if (value !== false && value !== null) element.setAttribute(name, value === true ? '' : value);
  }
  for (const part of content) {
    if (part !== null) element.append(typeof part === 'string' ? document.createTextNode(part) : part);
  }
  return element;
}
const SVG_TAGS = new Set(['svg', 'g', 'rect', 'path', 'text', 'title', 'defs', 'marker']);

const grouped = (number) => number.toLocaleString('en-US');

// Returns "1 node", "1,200 nodes".
const counted = (number, name) => `${grouped(number)} ${name}${number === 1 ? '' : 's'}`;

// Returns a rounded number like "12.3 G".
function short(number) {
  const units = ['', ' k', ' M', ' G', ' T', ' P'];
  let unit = 0;
  while (number >= 1000 && unit + 1 < units.length) {
    number /= 1000;
    unit++;
  }
  return (unit === 0 ? String(number) : number.toPrecision(3)) + units[unit];
}

// Returns a percentage that is never rounded up to 100.
function percent(part, whole) {
  if (whole === 0) return '';
  return part === whole ? '100 %' : `${Math.min(99.9, Math.round(1000 * part / whole) / 10).toFixed(1)} %`;
}

const className = (type) => type.slice(type.lastIndexOf('.') + 1);
const pathText = (path) => (path === '' ? '(root)' : shown(path));
const lastSegment = (path) => (path === '' ? '(root)' : shown(path.slice(path.lastIndexOf('.') + 1)));

const sum = (counts) => counts.reduce((a, b) => a + b, 0);

// Creates a bar with the shares of the states.
function statesBar(counts, kind = '') {
  const bar = make('span', { class: `bar ${kind}`, role: 'img',
    'aria-label': counts.map((count, i) => (count ? `${count} ${states[i]}` : '')).filter(Boolean).join(', ') });
  counts.forEach((count, i) => {
    if (count === 0) return;
    const part = make('i', { class: `f${i}` });
    part.style.flexGrow = count;
    bar.append(part);
  });
  return bar;
}

const nodeLabel = (node) => shown(names.at(node)) || '(no name)';
const operatorOf = (node) => shown(data.operators[nodes.op[node]]);

// Creates a link to a node or module, for mouse and keyboard.
function link(text, onclick) {
  return make('button', { class: 'link', type: 'button', onclick }, text);
}

// Creates a number with its name below it.
function figure(value, name, title = '') {
  return make('div', { class: 'figure', title }, make('b', {}, value), make('span', {}, name));
}
