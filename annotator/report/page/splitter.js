// The bar between the figures and the graph: drag it, move it by arrow keys, double-click it to reset its height.

const splitter = document.getElementById('splitter');
const FACTS_LEAST = 40;
const GRAPH_LEAST = 120;
const SPLITTER_STEP = 24;

function setFactsHeight(pixels) {
  const most = Math.max(FACTS_LEAST, byId('module').clientHeight - GRAPH_LEAST);
  const height = Math.min(most, Math.max(FACTS_LEAST, pixels));
  factsElement.style.maxHeight = 'none';
  factsElement.style.height = `${height}px`;
  splitter.setAttribute('aria-valuenow', String(Math.round(100 * height / most)));
}

const moveSplitter = (event) => setFactsHeight(event.clientY - factsElement.getBoundingClientRect().top);

splitter.addEventListener('pointerdown', (event) => {
  event.preventDefault();
  splitter.setPointerCapture(event.pointerId);
  splitter.addEventListener('pointermove', moveSplitter);
});
splitter.addEventListener('lostpointercapture', () => splitter.removeEventListener('pointermove', moveSplitter));
splitter.addEventListener('dblclick', () => {
  factsElement.style.height = factsElement.style.maxHeight = '';
  splitter.removeAttribute('aria-valuenow');
});
splitter.addEventListener('keydown', (event) => {
  const heights = { ArrowUp: factsElement.offsetHeight - SPLITTER_STEP, Home: 0, End: Infinity,
    ArrowDown: factsElement.offsetHeight + SPLITTER_STEP };
  if (!(event.key in heights)) return;
  event.preventDefault();
  setFactsHeight(heights[event.key]);
});
