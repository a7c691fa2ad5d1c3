// Starts the page of a report: its header, its filter by coverage, and its tab with the findings.

function coverageFits(wanted, row) {
  const counts = moduleAt(row).states;
  const [covered, all] = [coveredOf(counts), sum(counts)];
  switch (wanted) {
    case 'partly': return covered < all;
    case 'nothing': return covered === 0 && all > 0;
    default: return covered === all && all > 0;
  }
}

function addCoverageFilter() {
  const choices = { '': 'any coverage', partly: 'not fully covered', nothing: 'nothing covered',
    fully: 'fully covered' };
  byId('hits').before(make('select', { id: 'covered', 'aria-label': 'Filter by coverage', onchange: (event) => {
    const wanted = event.target.value;
    filter.moduleFits = wanted === '' ? null : (row) => coverageFits(wanted, row);
    refilter();
  } }, ...Object.entries(choices).map(([value, text]) => make('option', { value }, text))));
}

function fillHeader() {
  const all = data.coverage;
  document.title = `${shown(data.file)} – whence`;
  byId('file').textContent = shown(data.file);
  byId('headline').textContent =
    `${counted(nodeCount, 'node')}, ${percent(coveredOf(all), sum(all)) || '0 %'} covered` +
    `${data.producer.trim() === '' ? '' : `, producer ${shown(data.producer)}`}`;
  fillLegend(all);
}

fillHeader();
addCoverageFilter();
const found = data.findings.reduce((count, finding) => count + finding.items.length, 0);
addTab('findings', found === 0 ? 'Findings' : `Findings (${grouped(found)})`, fillFindings);
start();
