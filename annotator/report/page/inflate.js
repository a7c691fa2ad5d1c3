// Unpacks deflate data (RFC 1951) synchronously. The browser's DecompressionStream is asynchronous and would delay the
// response to a click.

const LENGTHS_ORDER = [16, 17, 18, 0, 8, 7, 9, 6, 10, 5, 11, 4, 12, 3, 13, 2, 14, 1, 15];

// Returns the first number and the extra bits of each symbol. Each group of `alike` symbols has one extra bit more than
// the previous group; the first two groups have none.
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

// Builds the decoding table of a code from the lengths of its words: for each value of the next bits, the symbol and
// the number of bits of its word.
function codeOf(lengths) {
  const longest = Math.max(1, ...lengths);
  const table = new Uint16Array(1 << longest);
  let word = 0;
  for (let bits = 1; bits <= longest; bits++, word <<= 1) {
    for (let symbol = 0; symbol < lengths.length; symbol++) {
      if (lengths[symbol] !== bits) continue;
      let reversed = 0;  // words are stored from their highest bit
      for (let i = 0; i < bits; i++) reversed |= ((word >> i) & 1) << (bits - 1 - i);
      for (let at = reversed; at < table.length; at += 1 << bits) table[at] = (symbol << 4) | bits;
      word++;
    }
  }
  return { longest, table };
}

const PLAIN = {
  lengths: codeOf([...Array(144).fill(8), ...Array(112).fill(9), ...Array(24).fill(7), ...Array(8).fill(8)]),
  distances: codeOf(Array(30).fill(5)),
};

class Bits {
  constructor(bytes) {
    // held: bits that were read and not taken; the next bit is the lowest
    Object.assign(this, { bytes, at: 0, held: 0, count: 0 });
  }

  fill(count) {
    for (; this.count < count; this.count += 8) this.held |= (this.bytes[this.at++] ?? 0) << this.count;
  }

  drop(count) {
    this.held >>>= count;
    this.count -= count;
  }

  take(count) {
    this.fill(count);
    const value = this.held & ((1 << count) - 1);
    this.drop(count);
    return value;
  }

  symbol({ longest, table }) {
    this.fill(longest);
    const found = table[this.held & (table.length - 1)];
    if (found === 0 || this.at > this.bytes.length + 4) throw new Error('the page is damaged');
    this.drop(found & 15);
    return found >> 4;
  }

  // Returns the bytes of an uncompressed block, which starts at the next whole byte.
  plain() {
    this.drop(this.count % 8);
    const size = this.take(16);
    this.take(16);  // skips the complement of the size
    const start = this.at - this.count / 8;
    Object.assign(this, { at: start + size, held: 0, count: 0 });
    return this.bytes.subarray(start, start + size);
  }

  // Reads the two codes of a block with dynamic codes.
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

// Returns the unpacked bytes. `size` is their number, or an estimate.
function inflated(bytes, size = 8 * bytes.length) {
  const bits = new Bits(bytes);
  let out = new Uint8Array(size);
  let end = 0;
  const room = (count) => {
    if (end + count <= out.length) return;
    const larger = new Uint8Array(2 * (end + count));
    larger.set(out);
    out = larger;
  };
  for (let last = false; !last;) {
    last = bits.take(1) === 1;
    const kind = bits.take(2);
    if (kind === 0) {
      const plain = bits.plain();
      room(plain.length);
      out.set(plain, end);
      end += plain.length;
      continue;
    }
    const { lengths, distances } = kind === 1 ? PLAIN : bits.codes();
    for (let symbol; (symbol = bits.symbol(lengths)) !== 256;) {
      if (symbol < 256) {
        room(1);
        out[end++] = symbol;
        continue;
      }
      const length = LENGTHS[symbol - 257].from + bits.take(LENGTHS[symbol - 257].bits);
      const range = DISTANCES[bits.symbol(distances)];
      const distance = range.from + bits.take(range.bits);
      room(length);
      for (let i = 0; i < length; i++, end++) out[end] = out[end - distance];
    }
  }
  return end === out.length ? out : out.subarray(0, end);
}
