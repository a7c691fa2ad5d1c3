// Figures that were measured of the two files, by module: equal measures of both files are one column.

// [{key, title, unit, values: for each side the figures by row, or null}]
const measures = [];
for (const figures of data.figures) {
  for (const { key, title, unit, values: measured } of figures.measures) {
    let measure = measures.find((each) => each.key === key);
    if (measure === undefined) measures.push(measure = { key, title, unit, values: [null, null] });
    measure.values[figures.side] = measured;
  }
}

// Returns the figure of a module on a side; null if it was not measured.
function figureOn(measure, side, row) {
  const value = measure.values[side]?.[row];
  return value === undefined ? null : Number(value);
}
const figuresOf = (measure, row) => SIDES.map((side) => figureOn(measure, side, row));
const isMeasured = (measure, row) => figuresOf(measure, row).some((value) => value !== null);

function figureText(value, unit) {
  if (value === null) return '–';
  if (!Number.isFinite(value)) return value > 0 ? '∞' : '-∞';
  if (unit === '%') return `${value > 0 ? '+' : ''}${value.toFixed(1)} %`;
  if (unit === 'B') return `${value < 0 ? '-' : ''}${short(Math.abs(value))}B`;
  const size = Math.abs(value);
  const digits = size !== 0 && (size < 1e-3 || size >= 1e5) ? value.toExponential(1) : String(Number(value.toPrecision(3)));
  return unit === '' ? digits : `${digits} ${unit}`;
}

// Returns "1.2 → 0.8 ms", or one figure if only one file was measured.
function pairText(measure, row) {
  const pair = figuresOf(measure, row);
  const texts = pair.map((value) => figureText(value, measure.unit));
  if (pair.every((value) => value !== null)) return texts.join(' → ');
  return pair[0] !== null ? texts[0] : pair[1] !== null ? texts[1] : '';
}

// Returns "× 0.65", the second file's figure over the first's; empty if that says nothing.
function ratioText(measure, row) {
  const [before, after] = figuresOf(measure, row);
  if (!(before > 0) || after === null || !Number.isFinite(after / before) || measure.unit === 'dB') return '';
  return `× ${figureText(after / before, '')}`;
}

// Returns [{side, text}]: what the measurements remark on a module.
const remarksOf = (row) => data.figures.flatMap(({ side, remarks }) =>
  (remarks[row] === undefined ? [] : [{ side, text: remarks[row] }]));

// ---- the tree's column ----

let shownMeasure = null;  // null: numbers of nodes
const moduleFigure = (module) => {
  if (shownMeasure === null) return arrow(module.nodes);
  return module.apart ? '' : pairText(shownMeasure, moduleByPath().get(module.path));
};

function addColumnChoice() {
  if (measures.length === 0) return;
  byId('hits').before(make('select', { id: 'column', 'aria-label': 'Figure in the tree', onchange: (event) => {
    shownMeasure = measures[Number(event.target.value)] ?? null;
    drawRows();
  } }, make('option', { value: '-1' }, 'nodes in the tree'),
  ...measures.map(({ title }, i) => make('option', { value: i }, `${title} in the tree`))));
}

// ---- the tab ----

const ROWS_OF_FIGURES = 500;

function sourceOf(figures) {
  const warning = figures.model === files[figures.side] ? null :
    make('span', { class: 'warning' }, ` measured of ${shown(figures.model)}, not of ${shown(files[figures.side])}`);
  const unplaced = figures.unplaced === 0 ? '' : `; ${counted(figures.unplaced, 'module')} not in this page`;
  return make('li', {}, make('b', {}, `${LETTERS[figures.side]}: ${figures.kind} `),
    make('span', { class: 'mono' }, shown(figures.file)), warning,
    make('div', { class: 'dim' }, shown(figures.summary.join('; ')) + unplaced));
}

// The rows in the order of a measure's figure, the largest first; of the tree for null.
function figureRows(order) {
  const rows = [];
  for (let row = 0; row < data.modules.count; row++) {
    if (measures.some((measure) => isMeasured(measure, row))) rows.push(row);
  }
  if (order === null) return rows;
  const key = (row) => figureOn(order.measure, order.side, row) ?? -Infinity;
  return rows.sort((x, y) => (key(y) > key(x) ? 1 : key(y) < key(x) ? -1 : x - y));
}

function fillFigures(panel, order = null) {
  const rows = figureRows(order);
  const columns = measures.flatMap((measure) => SIDES.filter((side) => measure.values[side] !== null)
    .map((side) => ({ measure, side })));
  const isOrder = ({ measure, side }) => order !== null && order.measure === measure && order.side === side;
  const head = columns.map((each) => make('th', { scope: 'col', class: 'number',
    'aria-sort': isOrder(each) ? 'descending' : 'none' },
  link(`${LETTERS[each.side]}: ${each.measure.title}${isOrder(each) ? ' ↓' : ''}`,
    () => fillFigures(panel, isOrder(each) ? null : each))));
  const compared = measures.filter(({ values: [before, after] }) => before !== null && after !== null);
  const body = rows.slice(0, ROWS_OF_FIGURES).map((row) => make('tr', {}, make('td', { class: 'mono' }, rowLink(row)),
    ...columns.map(({ measure, side }) => make('td', { class: 'number' },
      figureText(figureOn(measure, side, row), measure.unit))),
    ...compared.map((measure) => make('td', { class: 'number' }, ratioText(measure, row))),
    make('td', {}, remarksOf(row).map(({ side, text }) => `${LETTERS[side]}: ${shown(text)}`).join('; '))));
  panel.replaceChildren(make('ul', { class: 'plain' }, ...data.figures.map(sourceOf)),
    make('div', { class: 'scroll' }, make('table', {}, make('thead', {}, make('tr', {},
      make('th', { scope: 'col' }, 'module'), ...head,
      ...compared.map(({ title }) => make('th', { scope: 'col', class: 'number' }, `b / a: ${title}`)),
      make('th', { scope: 'col' }, 'remark'))), make('tbody', {}, ...body))),
    rows.length > ROWS_OF_FIGURES ?
      make('p', { class: 'dim' }, `and ${grouped(rows.length - ROWS_OF_FIGURES)} more modules: choose a column`) : '');
}
