// SPDX-License-Identifier: Apache-2.0
//
// Decodes binary responses: named columns of little-endian numbers. Each column is aligned to eight
// bytes, so that it can be read as a typed array on the bytes of the response, without a copy.
import { RequestError } from "./source.ts";

const kMagic = 0x56485341; // "ASHV"
const kHeaderBytes = 8;
const kEntryBytes = 32;
const kNameBytes = 16;

// The array types, indexed by type number (docs/reference/formats/view.md).
const kTypes = [
  null,
  Uint8Array,
  Uint16Array,
  Uint32Array,
  BigUint64Array,
  Float32Array,
  Float64Array,
] as const;

export type Column =
  Uint8Array | Uint16Array | Uint32Array | BigUint64Array | Float32Array | Float64Array;

export class Columns {
  private readonly byName = new Map<string, Column>();

  constructor(bytes: ArrayBuffer) {
    const view = new DataView(bytes);
    if (bytes.byteLength < kHeaderBytes || view.getUint32(0, true) !== kMagic) {
      throw new RequestError("a response does not begin with ASHV");
    }
    const count = view.getUint32(4, true);
    if (kHeaderBytes + count * kEntryBytes > bytes.byteLength) {
      throw new RequestError(`a response is too short for its ${count} columns`);
    }
    for (let i = 0; i < count; ++i) this.read(bytes, view, kHeaderBytes + i * kEntryBytes);
  }

  u8(name: string): Uint8Array {
    return this.column(name, Uint8Array);
  }
  u16(name: string): Uint16Array {
    return this.column(name, Uint16Array);
  }
  u32(name: string): Uint32Array {
    return this.column(name, Uint32Array);
  }
  u64(name: string): BigUint64Array {
    return this.column(name, BigUint64Array);
  }
  f64(name: string): Float64Array {
    return this.column(name, Float64Array);
  }

  private read(bytes: ArrayBuffer, view: DataView, entry: number): void {
    const name = new TextDecoder()
      .decode(new Uint8Array(bytes, entry, kNameBytes))
      .replace(/\0+$/, "");
    const Type = kTypes[view.getUint32(entry + 16, true)];
    const length = view.getUint32(entry + 20, true);
    const begin = Number(view.getBigUint64(entry + 24, true));
    if (!Type) throw new RequestError(`column ${name} has an unknown type`);
    if (begin % 8 !== 0 || begin + length * Type.BYTES_PER_ELEMENT > bytes.byteLength) {
      throw new RequestError(`column ${name} lies outside of its response`);
    }
    this.byName.set(name, new Type(bytes, begin, length));
  }

  private column<T extends Column>(name: string, Type: { new (length: number): T }): T {
    const column = this.byName.get(name);
    if (!column) throw new RequestError(`a response has no column ${name}`);
    if (!(column instanceof Type)) throw new RequestError(`column ${name} is not a ${Type.name}`);
    return column;
  }
}
