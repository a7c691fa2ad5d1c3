// Shows the findings of `whence validate` with their nodes and modules.

const PLACES_SHOWN = 20;

function placesOf(finding) {
  const cell = make('td');
  const list = make('ul', { class: 'lines' });
  const place = ([subject, detail]) => make('li', {},
    nodeByName().has(subject) ? link(shown(subject), () => chooseNode(nodeByName().get(subject))) :
      moduleByPath().has(subject) && subject !== '' ?
        link(shown(subject), () => chooseModule(moduleByPath().get(subject))) :
        make('span', { class: 'mono' }, shown(subject)),
    detail === '' ? '' : make('span', { class: 'dim' }, `  ${shown(detail)}`));
  list.append(...finding.items.slice(0, PLACES_SHOWN).map(place));
  cell.append(list);
  if (finding.items.length > PLACES_SHOWN) {
    const more = link(`all ${grouped(finding.items.length)}`, () => {
      list.replaceChildren(...finding.items.map(place));
      more.remove();
    });
    cell.append(more);
  }
  return cell;
}

function findingRow(finding) {
  return make('tr', {}, make('td', { class: 'mono' }, finding.code),
    make('td', { class: finding.severity }, finding.severity),
    make('td', {}, make('div', {}, finding.summary), make('div', { class: 'dim' }, finding.why)),
    make('td', { class: 'number' }, grouped(finding.items.length)), placesOf(finding), make('td', {}, finding.remedy));
}

function fillFindings(element) {
  if (data.findings.length === 0) {
    element.replaceChildren(make('p', {}, `Nothing found; ${data.checks} checks ran.`));
    return;
  }
  const titles = ['code', 'severity', 'what', 'places', 'where', 'remedy'];
  element.replaceChildren(make('table', {},
    make('thead', {}, make('tr', {}, ...titles.map((title) => make('th', { scope: 'col' }, title)))),
    make('tbody', {}, ...data.findings.map(findingRow))));
}
