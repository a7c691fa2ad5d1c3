// Unpacks what was packed by deflate (RFC 1951), at once: the browser's own unpacks only in the background, and what a
// click shows would come later than the click.

const MOST_BITS = 15;  // longest word of a code
const LENGTHS_ORDER = [16, 17, 18, 0, 8, 7, 9, 6, 10, 5, 11, 4, 12, 3, 13, 2, 14, 1, 15];

// The numbers that symbols from `first` on begin at, and their extra bits: of two symbols each has the same, from the
// first four or eight on.
function ranges(count, start, alike) {
  const list = [];
  for (let i = 0, from = start; i < count; i++) {
    const bits = Math.max(0, Math.floor(i / alike) - 1);
    list.push({ from, bits });
    from += 1 << bits;
  }
  return list;
}
const LENGTHS = [...ranges(28, 3, 4), { from: 258, bits: 0 }];
const DISTANCES = ranges(30, 1, 2);

// A code by the lengths of its words: how many there are of each length, and their symbols in order.
function codeOf(lengths) {
  const count = new Uint16Array(MOST_BITS + 1);
  const symbols = [];
  for (let bits = 1; bits <= MOST_BITS; bits++) {
    for (let symbol = 0; symbol < lengths.length; symbol++) {
      if (lengths[symbol] === bits) count[bits]++, symbols.push(symbol);
    }
  }
  return { count, symbols };
}

const PLAIN = {
  lengths: codeOf([...Array(144).fill(8), ...Array(112).fill(9), ...Array(24).fill(7), ...Array(8).fill(8)]),
  distances: codeOf(Array(30).fill(5)),
};

class Bits {
  constructor(bytes) {
    this.bytes = bytes;
    this.at = 0;  // in bits
  }

  take(count) {
    let value = 0;
    for (let i = 0; i < count; i++, this.at++) value |= ((this.bytes[this.at >> 3] >> (this.at & 7)) & 1) << i;
    return value;
  }

  symbol({ count, symbols }) {
    let word = 0;   // its bits so far
    let first = 0;  // the first word of that length
    let before = 0; // symbols with shorter words
    for (let bits = 1; bits <= MOST_BITS; bits++) {
      word = 2 * word + this.take(1);
      if (word - first < count[bits]) return symbols[before + word - first];
      before += count[bits];
      first = 2 * (first + count[bits]);
    }
    throw new Error('the page is damaged');
  }

  // The two codes of a block that states them.
  codes() {
    const [ofLengths, ofDistances, ofOrder] = [this.take(5) + 257, this.take(5) + 1, this.take(4) + 4];
    const order = new Array(19).fill(0);
    for (let i = 0; i < ofOrder; i++) order[LENGTHS_ORDER[i]] = this.take(3);
    const code = codeOf(order);
    const lengths = [];
    while (lengths.length < ofLengths + ofDistances) {
      const symbol = this.symbol(code);
      if (symbol < 16) lengths.push(symbol);
      else if (symbol === 16) lengths.push(...Array(3 + this.take(2)).fill(lengths.at(-1)));
      else lengths.push(...Array(symbol === 17 ? 3 + this.take(3) : 11 + this.take(7)).fill(0));
    }
    return { lengths: codeOf(lengths.slice(0, ofLengths)), distances: codeOf(lengths.slice(ofLengths)) };
  }
}

// Bytes of text in ASCII.
function inflated(bytes) {
  const bits = new Bits(bytes);
  const out = [];
  for (let last = false; !last;) {
    last = bits.take(1) === 1;
    const kind = bits.take(2);
    if (kind === 0) {
      const at = ((bits.at + 7) >> 3) + 4;
      const size = bytes[at - 4] | (bytes[at - 3] << 8);
      for (let i = 0; i < size; i++) out.push(bytes[at + i]);
      bits.at = 8 * (at + size);
      continue;
    }
    const { lengths, distances } = kind === 1 ? PLAIN : bits.codes();
    for (let symbol; (symbol = bits.symbol(lengths)) !== 256;) {
      if (symbol < 256) {
        out.push(symbol);
        continue;
      }
      const length = LENGTHS[symbol - 257].from + bits.take(LENGTHS[symbol - 257].bits);
      const range = DISTANCES[bits.symbol(distances)];
      const distance = range.from + bits.take(range.bits);
      for (let i = 0; i < length; i++) out.push(out[out.length - distance]);
    }
  }
  return new TextDecoder('latin1').decode(Uint8Array.from(out));
}
