// Goes the ways that zarrita.js has to arrays, and prints what came of each as JSON.
//
// Run in the folder that has node_modules, with {"path": ..., "arrays": [...]} as its argument.
import { readFile } from "node:fs/promises";
import { stdout } from "node:process";
import * as zarr from "zarrita";

const asked = JSON.parse(process.argv[2]);

// A store of zarrita's own kind: gives bytes by key, or undefined. Knows no Zarr.
class Folder {
  constructor(path) {
    this.path = path;
  }
  async get(key) {
    try {
      return new Uint8Array(await readFile(this.path + key));
    } catch (error) {
      if (["ENOENT", "EISDIR", "ENOTDIR"].includes(error.code)) return undefined;
      throw error;
    }
  }
  async getRange(key, range) {
    const whole = await this.get(key);
    if (whole === undefined) return undefined;
    if ("suffixLength" in range) return whole.slice(-range.suffixLength);
    return whole.slice(range.offset, range.offset + range.length);
  }
}

// A new store every time: zarrita remembers which versions of Zarr it found in one.
const root = () => zarr.root(new Folder(asked.path));
const array = { kind: "array" };

const ways = {
  "open array": async (name) => zarr.get(await zarr.open(root().resolve(name), array)),
  "open any": async (name) => zarr.get(await zarr.open(root().resolve(name))),
  "open.v3 array": async (name) => zarr.get(await zarr.open.v3(root().resolve(name), array)),
  "open.v3 any": async (name) => zarr.get(await zarr.open.v3(root().resolve(name))),
  "from its group": async (name) => {
    const group = await zarr.open.v3(root(), { kind: "group" });
    return zarr.get(await zarr.open.v3(group.resolve(name), array));
  },
  "from its group, any version": async (name) => {
    const group = await zarr.open(root(), { kind: "group" });
    return zarr.get(await zarr.open(group.resolve(name), array));
  },
  "by path": async (name) => {
    const place = zarr.root(new Folder(`${asked.path}/${name}`));
    return zarr.get(await zarr.open.v3(place, array));
  },
  chunk: async (name) => {
    const opened = await zarr.open.v3(root().resolve(name), array);
    const chunk = await opened.getChunk(opened.shape.map(() => 0));
    return { ...chunk, shape: opened.shape };
  },
};

const listed = (data) => Array.from(data, (value) => (typeof value === "bigint" ? `${value}` : value));

// Complex numbers and NaN are not JSON: bytes are, in hexadecimal.
function described(found) {
  if (found === null || typeof found !== "object") return { scalar: `${found}` };
  const { data, shape } = found;
  const kind = data.constructor.name;
  if (ArrayBuffer.isView(data)) {
    const bytes = Buffer.from(data.buffer, data.byteOffset, data.byteLength);
    return { kind, shape, hex: bytes.toString("hex") };
  }
  return { kind, shape, list: listed(data) };
}

const results = {};
for (const [way, read] of Object.entries(ways)) {
  results[way] = {};
  for (const name of asked.arrays) {
    try {
      results[way][name] = { read: described(await read(name)) };
    } catch (error) {
      results[way][name] = { refused: `${error.name}: ${error.message}` };
    }
  }
}
stdout.write(JSON.stringify(results));
