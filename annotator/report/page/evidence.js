// Shows the selected node's module and the evidence for it, like `whence explain`.

const LINKS_SHOWN = 30;

function valueList(title, entries) {
  if (entries.length === 0) return [];
  const rows = entries.slice(0, LINKS_SHOWN).map(([other, value]) => make('li', {},
    make('span', { class: 'mono' }, shown(values.at(value))), ' ',
    make('span', { class: 'dim' }, `${shown(shapeOf(value))} `),
    other < 0 ? 'of the graph' : link(nodeLabel(other), () => chooseNode(other))));
  if (entries.length > LINKS_SHOWN) rows.push(make('li', { class: 'dim' }, `and ${entries.length - LINKS_SHOWN} more`));
  return [make('h3', {}, title), make('ul', {}, ...rows)];
}

function operationParts(operation) {
  return [make('h3', {}, `Recorded operation ${operation.index}`), make('div', { class: 'mono' }, shown(operation.op)),
    make('ul', {}, ...operation.scope.map((call) => make('li', {}, 'in ', moduleLink(call.path),
      make('span', { class: 'dim' }, ` ${shown(className(call.type))}${call.call > 0 ? `, call ${call.call}` : ''}`))),
    ...operation.source.map((frame) => make('li', { class: 'mono' }, `at ${shown(frame)}`)))];
}

function showEvidence(node) {
  const found = evidenceOf(node);
  const confidence = nodes.state[node];
  const list = make('dl');
  const module = moduleOf[node] === withoutModule ? null : moduleAt(moduleOf[node]);
  if (module !== null) {
    entry(list, 'module', rowLink(moduleOf[node]));
    if (module.type !== '') entry(list, 'type', make('span', { class: 'mono' }, shown(module.type)));
  }
  for (const path of found.modules) entry(list, 'stands for', moduleLink(path));
  const call = data.calls[nodes.call[node]];
  if (call !== '') entry(list, 'call', shown(call));
  if (data.sources[nodes.source[node]] !== '') {
    entry(list, 'source', make('span', { class: 'mono' }, shown(data.sources[nodes.source[node]])));
  }
  entry(list, 'confidence', make('span', { class: `dot f${confidence}` }), ` ${states[confidence]}`);
  if (found.rule !== '') entry(list, 'rule', shown(found.rule));
  const operations = optional(nodes.operations(), node);
  entry(list, 'FLOPs', operations === null ? 'unknown' : grouped(operations));
  const keys = [];
  for (let i = 0; i < found.keys.length; i += 2) {
    const lines = found.keys[i + 1].split('\n').map(shown).join('\n');  // keeps the line breaks of stack traces
    keys.push(make('div', { class: 'dim mono' }, shown(found.keys[i])), make('pre', { tabindex: '0' }, lines));
  }
  fillEvidence(
    make('h2', {}, operatorOf(node)), make('div', { class: 'mono' }, nodeLabel(node)),
    make('p', { class: 'because' }, shown(found.reason)), list,
    ...valueList('Reads', listed(eachRead, node)), ...valueList('Read by', listed(eachReader, node)),
    ...found.operations.flatMap(operationParts),
    ...(keys.length > 0 ? [make('h3', {}, 'Keys on the node'), ...keys] : []));
}
