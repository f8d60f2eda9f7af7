// Reads the test vectors with nothing but the pages of this specification and Node.js:
//   node spec/vectors/reader.mjs
// A sketch of a reader in another language: it has no partial reads, and skips intarsia.hdf5,
// zstd, blosc and bzip2.
import { createHash } from "node:crypto";
import { existsSync, readdirSync, readFileSync } from "node:fs";
import { inflateSync } from "node:zlib";

const HERE = new URL(".", import.meta.url);
const fail = (why) => { throw new Error(why); };
const json = (name) => JSON.parse(readFileSync(new URL(name, HERE), "utf8"));

// -- types: read an element at a byte, promote, round ---------------------------------------------

const VIEWS = {
  b1: ["getUint8"], i1: ["getInt8"], u1: ["getUint8"], i2: ["getInt16"], u2: ["getUint16"],
  i4: ["getInt32"], u4: ["getUint32"], f4: ["getFloat32"], f8: ["getFloat64"],
};
const NAMES = {
  bool: "b1", int8: "i1", uint8: "u1", int16: "i2", uint16: "u2", int32: "i4", uint32: "u4",
  float32: "f4", float64: "f8",
};
function typeOf(name) {
  if (typeof name === "object" && name.name === "fixed_length_utf32")
    return { code: "U", size: name.configuration.length_bytes };
  const code = NAMES[name] ?? fail(`this sketch has no ${JSON.stringify(name)}`);
  return { code, size: Number(code[1]) };
}
function read(view, at, { code, size }, little) {
  if (code !== "U") return view[VIEWS[code][0]](at, little);
  let text = "";
  for (let i = 0; i < size; i += 4) text += String.fromCodePoint(view.getUint32(at + i, little));
  return text.replace(/\0+$/, "");
}
const round = (code) => (x) => {
  if (code === "f4") return Math.fround(x);
  if (code === "f8") return x;
  if (code === "b1") return Number(x !== 0);
  const bits = 8 * Number(code[1]);
  return Number(code[0] === "i" ? BigInt.asIntN(bits, BigInt(Math.trunc(x)))
    : BigInt.asUintN(bits, BigInt(Math.trunc(x))));
};
// with types of up to 32 bits, single precision is enough for two operands of f4, i1 to u2 only
const promote = (a, b) => ([a, b].every((c) => ["f4", "b1", "i1", "u1", "i2", "u2"].includes(c))
  ? round("f4") : round("f8"));

// -- cf -------------------------------------------------------------------------------------------

function decodeSteps(steps, code, values, row) {
  for (const { name, configuration: c } of steps) {
    if (name === "isnan" || name === "not") {
      values = values.map((x) => Number(name === "isnan" ? Number.isNaN(x) : x === 0));
      code = "b1";
      continue;
    }
    code = typeOf(c.data_type).code;
    const to = round(code);
    values = values.map(to);
    if (name === "mask") {
      for (let i = 0; i < c.fills; i++) {
        const fill = row[`fill_${i}`];
        const both = promote(code, fill.code);
        row[`fill_${i}`].value = both(fill.value);
      }
      const fills = [...Array(c.fills).keys()].map((i) => row[`fill_${i}`].value);
      values = values.map((x) => (fills.includes(x) ? NaN : x));
    } else if (name === "scale") {
      for (const [wanted, key, apply] of [
        [c.scale, "scale", (x, y) => x * y], [c.offset, "offset", (x, y) => x + y]]) {
        if (!wanted) continue;
        const { code: other, value } = row[key];
        const both = promote(code, other);
        values = values.map((x) => to(both(apply(both(x), both(value)))));
      }
    } else if (name !== "cast") fail(`no step ${name}`);
  }
  return values;
}
function readRow(parameters, bytes) {
  const view = new DataView(bytes.buffer, bytes.byteOffset, bytes.length);
  const row = {};
  let at = 0;
  for (const [name, type] of parameters) {
    const code = type[1] === "U" ? "U" : type.slice(1);
    const size = code === "U" ? 4 * Number(type.slice(2)) : Number(type[2]);
    row[name] = { code, value: read(view, at, { code, size }, type[0] !== ">") };
    at += size;
  }
  return row;
}

// -- cases ----------------------------------------------------------------------------------------

const canonical = (x) => Array.isArray(x) ? `[${x.map(canonical).join(",")}]`
  : x !== null && typeof x === "object"
    ? `{${Object.keys(x).sort().map((k) => `${canonical(k)}:${canonical(x[k])}`).join(",")}}`
    : JSON.stringify(x).replace(/[\x7f-\uffff]/g,
      (c) => `\\u${c.charCodeAt(0).toString(16).padStart(4, "0")}`);
const keyOf = (x) => createHash("sha256").update(canonical(x)).digest("hex").slice(0, 16);

function fletcher32(bytes) {
  let [first, second] = [0, 0];
  for (let i = 0; i < bytes.length; i += 2) {
    first = (first + bytes[i] * 256 + (bytes[i + 1] ?? 0)) % 65535;
    second = (second + first) % 65535;
  }
  return second * 65536 + first; // of data that are not all zero: 0 is written 65535
}
function lz4(block, made) {
  const out = Buffer.alloc(made);
  let [at, to] = [0, 0];
  const length = (nibble) => {
    if (nibble < 15) return nibble;
    let [sum, next] = [15, 255];
    while (next === 255) sum += next = block[at++];
    return sum;
  };
  while (at < block.length) {
    const token = block[at++];
    const literals = length(token >> 4);
    to += block.copy(out, to, at, at + literals);
    at += literals;
    if (at >= block.length) break;
    const back = block.readUInt16LE(at);
    at += 2;
    for (let left = length(token & 15) + 4; left > 0; left--, to++) out[to] = out[to - back];
  }
  return to === made ? out : fail("lz4");
}
function framed(bytes, whole, raw) { // blocks after HDF5's header
  const out = Buffer.alloc(Number(bytes.readBigUInt64BE(0)));
  const block = bytes.readUInt32BE(8);
  const end = whole(out.length);
  let at = 12;
  for (let to = 0; to < end; to += block) {
    const made = Math.min(block, end - to);
    const stored = bytes.readUInt32BE(at);
    const held = bytes.subarray(at + 4, at + 4 + stored);
    (raw && stored === made ? held : lz4(held, made)).copy(out, to);
    at += 4 + stored;
  }
  bytes.copy(out, end, at);
  return [out, block];
}
function bitshuffle({ elementsize: size, blocksize, compressor }, bytes) {
  const whole = (length) => length - length % (8 * size);
  const [held, block] = compressor === undefined ? [bytes, blocksize * size]
    : framed(bytes, whole, false);
  const out = Buffer.from(held);
  for (let begin = 0; begin < whole(held.length); begin += block) {
    const end = Math.min(begin + block, whole(held.length));
    const plane = (end - begin) / size / 8; // bytes of one bit of all elements
    out.fill(0, begin, end);
    for (let i = 0; i < size * 8; i++)
      for (let j = 0; j < plane * 8; j++)
        out[begin + j * size + (i >> 3)] |=
          (held[begin + i * plane + (j >> 3)] >> (j & 7) & 1) << (i & 7);
  }
  return out;
}
function undo(filter, bytes) {
  if (filter.name === "numcodecs.zlib") return inflateSync(bytes);
  if (filter.name === "intarsia.hdf5-lz4") return framed(bytes, (length) => length, true)[0];
  if (filter.name === "intarsia.hdf5-bitshuffle") return bitshuffle(filter.configuration, bytes);
  if (filter.name === "numcodecs.fletcher32") {
    const body = bytes.subarray(0, -4);
    const sum = fletcher32(body);
    const fixed = (n) => n || 65535;
    const stored = bytes.readUInt32LE(body.length);
    const made = fixed(Math.floor(sum / 65536)) * 65536 + fixed(sum % 65536);
    return stored === made ? body : fail("checksum");
  }
  const size = filter.configuration.elementsize;
  const count = Math.floor(bytes.length / size);
  const out = Buffer.from(bytes);
  for (let i = 0; i < count; i++)
    for (let j = 0; j < size; j++) out[i * size + j] = bytes[j * count + i];
  return out;
}
function compile(text) {
  const codecs = [...text.codecs];
  const steps = codecs[0].name === "intarsia.cf" ? codecs.shift().configuration.steps : [];
  codecs.shift(); // the window
  const little = codecs.shift().configuration?.endian !== "big";
  const type = typeOf(text.data_type);
  const sizes = text.parameters.map(([, t]) => (t[1] === "U" ? 4 : 1) * Number(t.slice(2)));
  return { steps, little, type, filters: codecs, parameters: text.parameters,
    width: sizes.reduce((a, b) => a + b, 0) };
}
function decodeStored({ filters, type, little }, bytes, mask, elements) {
  for (let i = filters.length - 1; i >= 0; i--)
    if (!(mask >>> i & 1)) bytes = undo(filters[i], bytes);
  if (bytes.length !== elements * type.size) fail("wrong length");
  const view = new DataView(bytes.buffer, bytes.byteOffset, bytes.length);
  return Array.from({ length: elements }, (_, i) => read(view, i * type.size, type, little));
}

// -- switch ---------------------------------------------------------------------------------------

function* indices(count) {
  const index = count.map(() => 0);
  while (true) {
    yield index;
    let dim = count.length - 1;
    while (dim >= 0 && ++index[dim] === count[dim]) index[dim--] = 0;
    if (dim < 0) return;
  }
}
function decodeChunk(cases, shape, fill, data) {
  if (data.length < 16 || data.readUInt32LE(0) !== 0x01575349) fail("no header");
  const short = data.readUInt32LE(4) === 0;
  const parts = data.readUInt32LE(4) || 1;
  const header = data.readBigUInt64LE(8);
  const ndim = shape.length;
  const size = 32 + 8 * ndim + (short ? 0 : 8 * (2 * ndim + 1));
  if (parts > 8192 || header > 1n << 26n || header > data.length) fail("header");
  if (16 + parts * size > header) fail("records");
  let row = 16 + parts * size, at = Number(header);
  const total = shape.reduce((a, b) => a * b, 1);
  const out = Array(total).fill(fill), taken = Array(total).fill(false);
  for (let number = 0; number < parts; number++) {
    const base = 16 + number * size;
    const int = (i) => data.readBigInt64LE(base + 16 + 8 * i);
    const one = cases[data.toString("hex", base, base + 8)] ?? fail("case");
    const mask = data.readUInt32LE(base + 8), state = data.readUInt32LE(base + 12);
    const many = (i) => Array.from({ length: ndim }, (_, dim) => int(i + dim));
    const [elements, begin, strides] = [int(0), int(1), many(2)];
    const start = short ? shape.map(() => 0n) : many(2 + ndim);
    const count = short ? shape.map(BigInt) : many(2 + 2 * ndim);
    if (row + one.width > header) fail("rows");
    const parameters = readRow(one.parameters, data.subarray(row, row + one.width));
    row += one.width;
    const length = short ? BigInt(data.length) - header : int(2 + 3 * ndim);
    if (length < 0n || BigInt(at) + length > data.length) fail("length of a part");
    shape.forEach((n, dim) => {
      if (count[dim] < 1n || start[dim] < 0n || start[dim] + count[dim] > n) fail("box");
    });
    if (!short && parts === 1 && count.every((n, dim) => n === BigInt(shape[dim]))) fail("long");
    const reach = strides.map((s, dim) => s * (count[dim] - 1n));
    const sum = (list) => list.reduce((a, b) => a + b, begin);
    if (state > 1) fail("state");
    if (state === 1 && (length || elements || begin || mask
      || strides.some((s, dim) => s && count[dim] !== 1n))) fail("constant");
    if (state === 0 && (elements < 1n || elements * BigInt(one.type.size) >= 1n << 32n || begin < 0n
      || sum(reach.filter((r) => r < 0n)) < 0n
      || sum(reach.filter((r) => r > 0n)) >= elements)) fail("view");
    const bytes = data.subarray(at, at + Number(length));
    at += Number(length);
    const stored = state === 1 ? [parameters.raw_fill.value]
      : decodeStored(one, bytes, mask, Number(elements));
    const values = decodeSteps(one.steps, one.type.code, stored, parameters);
    for (const index of indices(count.map(Number))) {
      let [from, to] = [Number(begin), 0];
      index.forEach((i, dim) => {
        from += i * Number(strides[dim]) || 0;
        to = to * shape[dim] + Number(start[dim]) + i;
      });
      if (taken[to]) fail("overlap");
      [taken[to], out[to]] = [true, values[from]];
    }
  }
  if (row !== Number(header) || at !== data.length) fail("bytes are left");
  return out;
}
function tableOf(cases) {
  const entries = Object.entries(cases).map(([key, text]) =>
    [key, keyOf(text) === key ? compile(text) : fail(`${key} is not the key of its case`)]);
  return Object.fromEntries(entries);
}

// -- arrays ---------------------------------------------------------------------------------------

function decodeArrayChunk(codecs, shape, type, fill, data) {
  const [first, ...rest] = codecs;
  const c = first.configuration;
  if (first.name === "intarsia.switch")
    return decodeChunk(tableOf(c.cases), shape, fill, data);
  if (first.name === "bytes") {
    const elements = data.length / type.size;
    return decodeStored({ filters: [], type, little: c?.endian !== "big" }, data, 0, elements);
  }
  if (first.name === "intarsia.window") {
    const flat = decodeArrayChunk(rest, [c.elements], type, fill, data);
    return [...indices(shape)].length && Array.from(indices(shape), (index) =>
      flat[index.reduce((at, i, dim) => at + i * c.strides[dim], c.begin)]);
  }
  const inner = typeOf(c.data_type);
  const stored = decodeArrayChunk(rest, shape, inner, fill, data);
  const bytes = Buffer.from(c.parameters.map(([, , digits]) => digits).join(""), "hex");
  return decodeSteps(c.steps, inner.code, stored, readRow(c.parameters, bytes));
}
function readArray(folder) {
  const meta = json(`${folder}/zarr.json`);
  const [shape, chunk] = [meta.shape, meta.chunk_grid.configuration.chunk_shape];
  const type = typeOf(meta.data_type);
  const fill = meta.fill_value === "NaN" ? NaN : Number(meta.fill_value) || 0;
  const out = Array(shape.reduce((a, b) => a * b, 1)).fill(fill);
  for (const cell of indices(shape.map((n, dim) => Math.ceil(n / chunk[dim])))) {
    const path = new URL(`${folder}/c/${cell.join("/")}`, HERE);
    if (!existsSync(path)) continue;
    const held = decodeArrayChunk(meta.codecs, chunk, type, fill, readFileSync(path));
    let from = 0;
    for (const index of indices(chunk)) {
      const place = index.map((i, dim) => cell[dim] * chunk[dim] + i);
      const value = held[from++];
      if (place.every((i, dim) => i < shape[dim]))
        out[place.reduce((at, i, dim) => at * shape[dim] + i, 0)] = value;
    }
  }
  const raw = readFileSync(new URL(`${folder}/values.raw`, HERE));
  const view = new DataView(raw.buffer, raw.byteOffset, raw.length);
  return [out, out.map((_, i) => read(view, i * type.size, type, true))];
}

let [done, wrong] = [0, 0];
const check = (what, ok) => { done++; if (!ok) { wrong++; console.log("wrong:", what); } };
const refused = (run) => { try { run(); return false; } catch { return true; } };
for (const name of readdirSync(new URL("arrays/", HERE)).sort()) {
  if (/^hdf5|zstd|blosc|bzip2/.test(name)) continue;
  const [found, expected] = readArray(`arrays/${name}`);
  check(name, found.every((x, i) => Object.is(x, expected[i])));
}
for (const { case: text, canonical: written, key } of json("cases.json").accepted)
  check(key, canonical(text) === written && keyOf(text) === key);
const chunks = json("chunks.json");
const decode = (digits) => decodeChunk(
  tableOf(chunks.cases), chunks.shape, chunks.fill_value, Buffer.from(digits, "hex"));
for (const { chunk, values } of chunks.accepted)
  check(chunk, Buffer.from(decode(chunk)).toString("hex") === values);
for (const { chunk, why } of chunks.refused) check(why, refused(() => decode(chunk)));
console.log(`${done} vectors, ${wrong} wrong`);
process.exit(wrong ? 1 : 0);
