// Parts of a module's graph that reports and comparisons share: boxes for submodules, and ports for values from and to
// other modules. A port's other end is a node, GRAPH for an input or output of the graph, or LEFT_OUT for a node that is
// not in the page.

const PORTS_AT_ONCE = 40;
const GRAPH = -1;
const LEFT_OUT = -2;

// Returns the direct child of the module that contains the row; -1 if the row is the module itself.
function childHolding(module, row) {
  let at = row;
  while (at !== module && parentOf[at] !== module) at = parentOf[at];
  return at === module ? -1 : at;
}

// Returns the key that groups values into ports: a port for each value if there are few, else for each module on the
// other side, else for each direction. `rowOf` returns the module of a node.
function portKeys(links, rowOf) {
  const keys = [
    ([kind, value]) => `${kind} ${value}`,
    ([kind, , other]) => `${kind} module ${other < 0 ? other : rowOf(other)}`,
    ([kind]) => kind,
  ];
  return keys.find((key) => new Set(links.map(key)).size <= PORTS_AT_ONCE) ?? keys[2];
}

// Returns two lines of text, a tooltip and a class for a port. The functions return the text of a value's shape, and of
// a node's module.
function portLook(item, shapeOfValue, moduleTextOf) {
  const several = item.values.size > 1;
  const name = several ? counted(item.values.size, 'value') : shown(values.at(item.value));
  const place = item.key === item.kind ? 'many places' :
    item.other === LEFT_OUT ? 'a node left out' :
      item.other < 0 ? `graph ${item.kind}put` : moduleTextOf(item.other);
  const way = place.startsWith('graph ') ? '' : item.kind === 'in' ? 'from ' : 'to ';
  return { top: name, below: `${way}${place}`, way,
    title: `${name}\n${several ? '' : shown(shapeOfValue(item.value))}\n${place}`,
    kind: 'port', ariaLabel: `${name}, ${way}${place}` };
}
