// SPDX-License-Identifier: Apache-2.0
import { expect, test } from "vitest";
import { Columns } from "../../src/api/columns.ts";
import { RequestError } from "../../src/api/source.ts";
import { encodeColumns } from "../fake_server.ts";

const response = () =>
  encodeColumns({
    state: ["u8", [1, 2, 3]],
    column: ["u16", [65535]],
    id: ["u32", [7, 4294967295]],
    address: ["u64", [0x7f0000000000n]],
    bytes: ["f64", [1.5, 2 ** 40]],
    sixteen_letters_: ["f64", []],
  });

test("decodes every type and names of sixteen letters", () => {
  const columns = new Columns(response());
  expect([...columns.u8("state")]).toEqual([1, 2, 3]);
  expect([...columns.u16("column")]).toEqual([65535]);
  expect([...columns.u32("id")]).toEqual([7, 4294967295]);
  expect([...columns.u64("address")]).toEqual([0x7f0000000000n]);
  expect([...columns.f64("bytes")]).toEqual([1.5, 2 ** 40]);
  expect([...columns.f64("sixteen_letters_")]).toEqual([]);
});

test("names a missing or mistyped column", () => {
  const columns = new Columns(response());
  expect(() => columns.u32("made")).toThrow(/no column made/);
  expect(() => columns.u32("bytes")).toThrow(/bytes is not a Uint32Array/);
});

test("rejects bytes that are not a response", () => {
  expect(() => new Columns(new ArrayBuffer(4))).toThrow(RequestError);
  const wrong = response();
  new Uint8Array(wrong)[0] = 0;
  expect(() => new Columns(wrong)).toThrow(/ASHV/);
});

test("rejects responses truncated at any byte", () => {
  const whole = response();
  for (let length = 0; length < whole.byteLength; length += 4) {
    expect(() => new Columns(whole.slice(0, length))).toThrow(RequestError);
  }
});

test("rejects unknown types and misaligned columns", () => {
  const unknown = response();
  new DataView(unknown).setUint32(8 + 16, 9, true);
  expect(() => new Columns(unknown)).toThrow(/unknown type/);
  const misaligned = response();
  new DataView(misaligned).setBigUint64(8 + 24, 201n, true);
  expect(() => new Columns(misaligned)).toThrow(/outside/);
});
