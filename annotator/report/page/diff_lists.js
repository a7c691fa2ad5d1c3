// The tab with all changes: of the models as a whole, and of nodes by state.

const NODES_LISTED = 100;

function leftOutSentence() {
  const { modules: left, rows, differing_rows: differing } = data.left_out;
  if (left === 0 && rows === 0) return null;
  return make('p', { class: 'because', id: 'left-out' },
    `This page is bounded in size. It leaves out ${counted(left, 'module')} and ${counted(rows, 'node')}, ` +
    `${differing === 0 ? 'none of which differs' : `${grouped(differing)} of which differ`}. ` +
    'All counts include them; `whence diff --nodes` lists every change.');
}

function changeRow(node) {
  const module = moduleOf[node];
  return make('tr', {}, make('td', {}, link(operatorOf(node), () => chooseNode(node))),
    make('td', { class: 'mono' }, namesBefore.at(node) === '' ? nameOn(1, node) :
      `${nameOn(0, node)} → ${nameOn(1, node)}`),
    make('td', { class: 'mono' }, module === withoutModule ? '(no module)' : rowLink(module)),
    make('td', {}, ...details.at(node).split('\n').filter(Boolean).map((text) => make('div', {}, shown(text))),
      partnersOf(node).length === 0 ? '' : make('div', { class: 'dim' },
        counted(partnersOf(node).length, 'other node') + ' in the same replacement')));
}

function changesOf(state, list) {
  const body = make('tbody', {}, ...list.slice(0, NODES_LISTED).map(changeRow));
  const more = list.length <= NODES_LISTED ? '' : link(`${grouped(list.length - NODES_LISTED)} more`, () => {
    const shownNow = body.childElementCount;
    body.append(...list.slice(shownNow, shownNow + 10 * NODES_LISTED).map(changeRow));
    more.textContent = `${grouped(list.length - body.childElementCount)} more`;
    if (body.childElementCount === list.length) more.remove();
  });
  return make('details', { open: list.length <= NODES_LISTED }, make('summary', {},
    make('span', { class: `dot f${state}` }), ` ${states[state]}: ${counted(data.state_counts[state], 'node')}`),
  make('div', { class: 'scroll' }, make('table', {}, make('thead', {}, make('tr', {},
    ...['operator', 'name', 'module', 'what'].map((title) => make('th', { scope: 'col' }, title)))), body)), more);
}

function fillChanges(panel) {
  const lists = states.map(() => []);
  for (let node = 0; node < nodeCount; node++) lists[nodes.state[node]].push(node);
  panel.replaceChildren(...[leftOutSentence(),
    data.model.length === 0 ? null : make('ul', { id: 'model-changes' },
      ...data.model.map((text) => make('li', {}, shown(text)))),
    ...lists.map((list, state) => (state === EQUAL || list.length === 0 ? null : changesOf(state, list)))
      .reverse()].filter((part) => part !== null));
  if (panel.childElementCount === 0) panel.append(make('p', {}, 'No difference.'));
}
