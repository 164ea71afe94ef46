// SPDX-License-Identifier: Apache-2.0
import { deflateSync } from "node:zlib";
import { expect, test } from "vitest";
import { type ResponseIndex, EmbeddedSource } from "../../src/api/embedded_source.ts";
import { parseJson, RequestError } from "../../src/api/source.ts";

// Packs responses like `ashlar view FILE -o report.html`.
function pack(client: Record<string, string>): [ResponseIndex, Uint8Array] {
  const index: ResponseIndex = {};
  const parts: Buffer[] = [];
  let begin = 0;
  for (const [path, response] of Object.entries(client)) {
    const packed = deflateSync(response);
    index[path] = [begin, packed.length];
    parts.push(packed);
    begin += packed.length;
  }
  return [index, new Uint8Array(Buffer.concat(parts))];
}

const kResponses = { "scene.json": '{"version": 1}', "d/0/map?at=12": "bytes of a map" };

// Returns the parts of a page that the source reads.
function pageOf(index: ResponseIndex, packed: Uint8Array): Document {
  const elements: Record<string, { textContent: string }> = {
    "ashlar-index": { textContent: JSON.stringify(index) },
    "ashlar-responses": { textContent: `\n${Buffer.from(packed).toString("base64")}\n` },
  };
  return { getElementById: (id: string) => elements[id] ?? null } as unknown as Document;
}

test("finds and decompresses embedded responses by path", async () => {
  const source = EmbeddedSource.find(pageOf(...pack(kResponses)))!;
  expect(parseJson(await source.get("scene.json"))).toEqual({ version: 1 });
  const map = await source.get("d/0/map?at=12");
  expect(new TextDecoder().decode(map)).toBe("bytes of a map");
});

test("a served page has no embedded source", () => {
  const page = { getElementById: () => null } as unknown as Document;
  expect(EmbeddedSource.find(page)).toBe(null);
});

test("rejects paths that are not embedded", async () => {
  const source = new EmbeddedSource(...pack(kResponses));
  await expect(source.get("d/0/map?at=13")).rejects.toThrow(/ashlar view/);
  await expect(source.get("toString")).rejects.toThrow(RequestError);
});

test("rejects a truncated file", async () => {
  const [index, packed] = pack(kResponses);
  const source = new EmbeddedSource(index, packed.slice(0, packed.length - 1));
  await expect(source.get("d/0/map?at=12")).rejects.toThrow(/truncated/);
});

test("cannot open other files", async () => {
  await expect(new EmbeddedSource({}, new Uint8Array()).open()).rejects.toThrow(/ashlar view FILE/);
});
