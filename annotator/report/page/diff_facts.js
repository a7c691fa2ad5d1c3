// The figures of the selected module, and the selected node in both files.

const CHANGES_SHOWN = 12;
const LINKS_SHOWN = 30;

const stateTag = (kind, word) => make('span', { class: `tag state ${kind}` }, word);

// "moved, now in encoder": what became of the module.
function stateWords(row, module) {
  const words = moduleStates[module.state];
  const parts = [stateTag(`m${module.state}`, words)];
  if (module.elsewhere.length > 0) {
    parts.push(make('span', {}, module.nodes[1] === 0 || words === 'fused' ? ' its nodes are now in ' : ' from '));
    module.elsewhere.forEach((other, i) => parts.push(...(i > 0 ? [make('span', {}, ', ')] : []), rowLink(other)));
  }
  return make('div', { class: 'tags' }, ...parts);
}

function stateCounts(counts) {
  return make('div', { class: 'tags' }, ...counts.flatMap((count, i) => (count === 0 ? [] : [
    make('span', { class: `dot f${i}` }), make('span', {}, `${states[i]} ${grouped(count)} `)])));
}

function measuredTable(row) {
  const rows = measures.filter((measure) => isMeasured(measure, row));
  if (rows.length === 0) return null;
  return make('table', { class: 'measured' }, make('thead', {}, make('tr', {},
    ...['measured', 'a', 'b', 'b / a'].map((title, i) =>
      make('th', { scope: 'col', class: i > 0 ? 'number' : null }, title)))),
  make('tbody', {}, ...rows.map((measure) => make('tr', {}, make('td', {}, measure.title),
    ...SIDES.map((side) => make('td', { class: 'number' }, figureText(figureOn(measure, side, row), measure.unit))),
    make('td', { class: 'number' }, ratioText(measure, row))))));
}

function nodeEntry(node) {
  const texts = details.at(node).split('\n').filter(Boolean).map(shown);
  const [before, after] = SIDES.map((side) => shown(sizeOn(side, node)));
  if (isOn(0, node) && isOn(1, node) && before !== after && before !== '' && after !== '') {
    texts.push(`${before} → ${after}`);
  }
  return make('li', {}, make('span', { class: `dot f${nodes.state[node]}`, title: states[nodes.state[node]] }), ' ',
    link(`${operatorOf(node)} ${nameOn(isOn(1, node) ? 1 : 0, node)}`, () => chooseNode(node)),
    make('span', { class: 'dim' }, ` ${[states[nodes.state[node]], ...texts].join(': ')}`));
}

// The module's own nodes that differ.
function ownChanges(row) {
  const list = [...nodesOf(row)].filter((node) => nodes.state[node] !== EQUAL);
  if (list.length === 0) return null;
  const items = make('ul', { class: 'plain' }, ...list.slice(0, CHANGES_SHOWN).map(nodeEntry));
  const more = list.length <= CHANGES_SHOWN ? null : link(`all ${grouped(list.length)}`, () => {
    items.replaceChildren(...list.map(nodeEntry));
    more.remove();
  });
  return make('details', { open: list.length <= CHANGES_SHOWN },
    make('summary', {}, `${counted(list.length, 'own node')} that differ${list.length === 1 ? 's' : ''}`), items, more);
}

function leftOutWords(module) {
  const parts = [[module.modulesLeftOut, 'module below'], [module.rowsLeftOut, 'node']]
    .filter(([count]) => count > 0).map(([count, what]) => (what === 'node' ? counted(count, 'node') :
      `${grouped(count)} module${count === 1 ? '' : 's'} below`));
  return parts.length === 0 ? null :
    make('div', { class: 'because' }, `Not in this page, which is bounded in size: ${parts.join(', ')}.`);
}

function showFacts(row) {
  const module = moduleAt(row);
  const types = [module.typeBefore, module.type].filter(Boolean).map(shown).join(' → ');
  factsElement.replaceChildren(...[
    make('h2', { class: 'mono' }, pathText(module.path)),
    types === '' ? null : make('div', { class: 'dim mono' }, types),
    stateWords(row, module),
    make('div', { class: 'figures' },
      figure(arrow(module.nodes), module.nodes[1] === 1 && module.nodes[0] === 1 ? 'node' : 'nodes'),
      figure(arrow(module.own), 'its own'),
      figure(arrow(module.parameters), 'weights read')),
    module.apart ? null : measuredTable(row),
    ...remarksOf(module.apart ? -1 : row).map(({ side, text }) =>
      make('div', { class: 'dim' }, `${LETTERS[side]}: ${shown(text)}`)),
    module.total > 0 ? statesBar(module.states, 'wide') : null,
    module.total > 0 ? stateCounts(module.states) : null,
    leftOutWords(module), ownChanges(row),
  ].filter(Boolean));
}

// ---- the panel of a node ----

function valueLinks(title, side, node, each) {
  const list = [];
  each(side, node, (other, value) => list.push([other, value]));
  if (list.length === 0) return [];
  const rows = list.slice(0, LINKS_SHOWN).map(([other, value]) => make('li', {},
    make('span', { class: 'mono' }, shown(values.at(value))), ' ',
    make('span', { class: 'dim' }, `${shown(shapeOn(side, value))} `),
    other === GRAPH ? 'of the graph' : other === LEFT_OUT ? 'of a node left out' :
      link(nameOn(side, other), () => chooseNode(other))));
  if (list.length > LINKS_SHOWN) rows.push(make('li', { class: 'dim' }, `and ${list.length - LINKS_SHOWN} more`));
  return [make('h3', {}, `${LETTERS[side]}: ${title}`), make('ul', {}, ...rows)];
}

function sideEntries(list, side, node) {
  if (!isOn(side, node)) {
    entry(list, LETTERS[side], make('span', { class: 'dim' }, `not in ${shown(files[side])}`));
    return;
  }
  const row = moduleOn[side][node];
  entry(list, LETTERS[side], make('span', { class: 'mono' }, nameOn(side, node)));
  entry(list, 'module', row < 0 || row === withoutModule ? '(no module)' : rowLink(row));
  const size = shown(sizeOn(side, node));
  if (size !== '') entry(list, 'result', make('span', { class: 'mono' }, size));
  entry(list, 'confidence', data.confidences[nodes.confidence()[side][node]]);
}

function partnerParts(node) {
  const partners = partnersOf(node);
  if (nodes.fusion[node] < 0) return [];
  return SIDES.flatMap((side) => {
    const list = partners.filter((other) => isOn(side, other) && !isOn(1 - side, other));
    if (list.length === 0) return [];
    return [make('h3', {}, side === 0 ? 'Replaced nodes (a)' : 'Replaced by, or together with (b)'),
      make('ul', {}, ...list.slice(0, LINKS_SHOWN).map((other) => make('li', {},
        link(`${operatorOf(other)} ${nameOn(side, other)}`, () => chooseNode(other)))))];
  });
}

function showEvidence(node) {
  const list = make('dl');
  for (const side of SIDES) sideEntries(list, side, node);
  const source = data.sources[nodes.source[node]];
  if (source !== '') entry(list, 'source', make('span', { class: 'mono' }, shown(source)));
  const texts = details.at(node).split('\n').filter(Boolean);
  fillEvidence(make('h2', {}, operatorOf(node)),
    make('div', { class: 'tags' }, stateTag(`k${nodes.state[node]}`, states[nodes.state[node]])),
    texts.length === 0 ? '' : make('ul', { id: 'differences' }, ...texts.map((text) => make('li', {}, shown(text)))),
    list, ...partnerParts(node),
    ...SIDES.flatMap((side) => (!isOn(side, node) ? [] : [...valueLinks('reads', side, node, eachReadOn),
      ...valueLinks('read by', side, node, eachReaderOn)])));
}
