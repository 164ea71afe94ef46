// SPDX-License-Identifier: Apache-2.0
import { deflateSync } from "node:zlib";
import { expect, test } from "vitest";
import { type AnswerIndex, EmbeddedSource } from "../../src/ask/embedded_source.ts";
import { parseJson, Refused } from "../../src/ask/source.ts";

// Packs answers as `ashlar view FILE -o report.html` does.
function pack(answers: Record<string, string>): [AnswerIndex, Uint8Array] {
  const index: AnswerIndex = {};
  const parts: Buffer[] = [];
  let begin = 0;
  for (const [question, answer] of Object.entries(answers)) {
    const packed = deflateSync(answer);
    index[question] = [begin, packed.length];
    parts.push(packed);
    begin += packed.length;
  }
  return [index, new Uint8Array(Buffer.concat(parts))];
}

const kQuestions = { "scene.json": '{"version": 1}', "d/0/map?at=12": "bytes of a map" };

// As much of a page as is looked at.
function pageOf(index: AnswerIndex, packed: Uint8Array): Document {
  const elements: Record<string, { textContent: string }> = {
    "ashlar-index": { textContent: JSON.stringify(index) },
    "ashlar-answers": { textContent: `\n${Buffer.from(packed).toString("base64")}\n` },
  };
  return { getElementById: (id: string) => elements[id] ?? null } as unknown as Document;
}

test("answers are found by the text of their question, and unpacked", async () => {
  const source = EmbeddedSource.find(pageOf(...pack(kQuestions)))!;
  expect(parseJson(await source.get("scene.json"))).toEqual({ version: 1 });
  const map = await source.get("d/0/map?at=12");
  expect(new TextDecoder().decode(map)).toBe("bytes of a map");
});

test("a page without answers is no self-contained file", () => {
  const page = { getElementById: () => null } as unknown as Document;
  expect(EmbeddedSource.find(page)).toBe(null);
});

test("what was not packed is refused with what to do instead", async () => {
  const source = new EmbeddedSource(...pack(kQuestions));
  await expect(source.get("d/0/map?at=13")).rejects.toThrow(/ashlar view/);
  await expect(source.get("toString")).rejects.toThrow(Refused);
});

test("a file that was cut off is refused", async () => {
  const [index, packed] = pack(kQuestions);
  const source = new EmbeddedSource(index, packed.slice(0, packed.length - 1));
  await expect(source.get("d/0/map?at=12")).rejects.toThrow(/cut off/);
});

test("it cannot open other files, and says how to", async () => {
  await expect(new EmbeddedSource({}, new Uint8Array()).open()).rejects.toThrow(/ashlar view FILE/);
});
