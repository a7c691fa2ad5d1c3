// Shows the figures of the selected module.

const OPERATORS_SHOWN = 14;

// Counts all nodes at and below a module, or only its own, by a key: [[what, count]], most frequent first.
function countBy(module, key, ownOnly) {
  const counts = new Map();
  for (let row = module; row < (ownOnly ? module + 1 : endOf[module]); row++) {
    for (const node of nodesOf(row)) counts.set(key(node), (counts.get(key(node)) ?? 0) + 1);
  }
  return [...counts].sort((a, b) => b[1] - a[1]);
}

function operatorTags(module) {
  const operators = countBy(module, (node) => nodes.op[node], false);
  const tags = operators.slice(0, OPERATORS_SHOWN).map(([op, count]) =>
    make('span', { class: 'tag' }, `${shown(data.operators[op])} ${count > 1 ? `×${grouped(count)}` : ''}`.trim()));
  if (operators.length > OPERATORS_SHOWN) {
    tags.push(make('span', { class: 'dim' }, `and ${operators.length - OPERATORS_SHOWN} more`));
  }
  return make('div', { class: 'tags' }, ...tags);
}

function sourceLines(module) {
  const own = countBy(module, (node) => nodes.source[node], true).filter(([source]) => data.sources[source] !== '');
  if (own.length === 0) return null;
  const rows = own.slice(0, 200).map(([source, count]) =>
    make('li', { class: 'mono' }, `${shown(data.sources[source])}  `, make('span', { class: 'dim' }, `×${count}`)));
  return make('details', { open: own.length <= 6 },
    make('summary', {}, `${counted(own.length, 'source line')} of its own nodes`),
    make('ul', { class: 'lines' }, ...rows));
}

function coverageWords(counts) {
  const all = sum(counts);
  return make('div', { class: 'tags' }, ...counts.flatMap((count, i) => (count === 0 ? [] : [
    make('span', { class: `dot f${i}` }), make('span', {}, `${states[i]} ${grouped(count)}`),
    make('span', { class: 'dim' }, `${percent(count, all)}  `)])));
}

// Creates the line about recorded operations and parameters at and below a module; null without a sidecar.
function recordedWords(recorded) {
  if (!recorded) return null;
  const [arrived, fused, folded, eliminated, unknown, kept, merged, unused, missing] = recorded;
  const list = (counts) => counts.filter(([count]) => count > 0)
    .map(([count, what]) => `, ${grouped(count)} ${what}`).join('');
  return make('div', { class: 'dim', id: 'recorded' },
    `Recorded: ${counted(sum([arrived, fused, folded, eliminated, unknown]), 'operation')}` +
    list([[arrived, 'arrived'], [fused, 'fused'], [folded, 'folded into constants'], [eliminated, 'eliminated'],
      [unknown, 'not known']]) +
    `; ${sum([kept, merged, unused, missing]) === 1 ? '1 parameter or buffer' :
      `${grouped(sum([kept, merged, unused, missing]))} parameters and buffers`}` +
    list([[kept, 'kept'], [merged, 'merged into others'], [unused, 'not needed'], [missing, 'missing']]) + '.');
}

function showFacts(row) {
  const module = moduleAt(row);
  const known = operationsText(module);
  const formula = `Floating-point operations of one run, by formula: ${data.formulas}.` +
    (module.uncounted === 0 ? '' :
      ` Unknown for ${counted(module.uncounted, 'node')}: their sizes are dynamic, or their operators have no ` +
        'formula.') +
    (module.unsized === 0 || data.open_sizes.length === 0 ? '' : ` Sizes without a number: ${data.open_sizes.map(shown).join(', ')}; ` +
      'pass one with --size NAME=N, or all with --size all=N.');
  const more = [];
  if (module.calls !== null && module.calls > 0) {
    more.push(figure(grouped(module.calls), module.calls === 1 ? 'call' : 'calls'));
  }
  if (module.trainable !== null && module.trainable !== module.parameters) {
    more.push(figure(short(module.trainable), 'trainable'));
  }
  factsElement.replaceChildren(...[
    make('h2', { class: 'mono' }, pathText(module.path)),
    make('div', { class: 'dim mono' },
      [shown(module.type), ...module.aliases.map((alias) => `= ${shown(alias)}`)].filter(Boolean).join('  ')),
    module.apart ? make('div', { class: 'because' },
      'These nodes have no origin: run `whence annotate`.') : null,
    module.silent ? make('div', { class: 'because' }, `No node: ${module.silent}.`) : null,
    make('div', { class: 'figures' },
      figure(grouped(module.total), (module.total === 1 ? 'node' : 'nodes') +
        (module.own === module.total ? '' : `, ${grouped(module.own)} its own`)),
      figure(percent(coveredOf(module.states), sum(module.states)) || '–', 'covered'),
      figure(grouped(module.parameters), module.parameters === 1 ? 'parameter' : 'parameters'),
      figure(known, 'FLOPs', formula), ...more),
    sum(module.states) > 0 ? statesBar(module.states, 'wide') : null,
    sum(module.states) > 0 ? coverageWords(module.states) : null,
    recordedWords(module.recorded), operatorTags(row), sourceLines(row),
    make('details', {}, make('summary', {}, 'How FLOPs are counted'), make('p', { class: 'dim' }, formula)),
  ].filter(Boolean));
}
