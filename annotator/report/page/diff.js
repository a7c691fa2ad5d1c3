// Starts the page of a comparison: its header, its filter, and its tabs.

const ROWS_OPENED = 60;
const differing = sum(data.state_counts) - data.state_counts[EQUAL];  // a node in both files counts once

// "5 of a and 4 of b": a replaced node of one file has no single counterpart in the other.
function differingText() {
  const counts = SIDES.map((side) => nodes.state.reduce(
    (count, state, node) => count + (state !== EQUAL && isOn(side, node) ? 1 : 0), 0));
  return `${counted(counts[0], 'node')} of a and ${grouped(counts[1])} of b differ`;
}

function fillHeader() {
  document.title = `${files.map(shown).join(' → ')} – whence`;
  byId('file').textContent = files.map(shown).join(' → ');
  const weights = data.all_parameters;
  byId('headline').textContent = `${arrowOfNodes(data.all_nodes)}, ${arrow(weights)} weights read, ` +
    (differing === 0 && data.model.length === 0 ? 'no difference' : differingText());
  fillLegend(data.state_counts, true);
}

// Shows only what differs at first, with its modules open if it is little.
function addOnlyFilter() {
  const only = make('input', { type: 'checkbox', id: 'only', checked: differing > 0, onchange: () => {
    filter.states[EQUAL] = !only.checked;
    fillLegend(data.state_counts, true);
    refilter();
  } });
  byId('hits').before(make('label', { class: 'check' }, only, ' only what differs'));
  byId('legend').addEventListener('click', () => { only.checked = !filter.states[EQUAL]; });
  filter.states[EQUAL] = differing === 0;
  if (differing > ROWS_OPENED) return;
  for (let node = 0; node < nodeCount; node++) {
    if (nodes.state[node] === EQUAL) continue;
    for (let at = moduleOf[node]; at >= 0; at = parentOf[at]) tree.open.add(at);
  }
}

document.body.classList.add('diff');
addOnlyFilter();
fillHeader();
addColumnChoice();
addTab('changes', 'Changes', fillChanges);
if (data.figures.length > 0) addTab('figures', 'Figures', fillFigures);
start();
