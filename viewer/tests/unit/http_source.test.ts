// SPDX-License-Identifier: Apache-2.0
import { afterEach, expect, test, vi } from "vitest";
import { HttpSource } from "../../src/ask/http_source.ts";
import { Refused, StillLoading } from "../../src/ask/source.ts";

const kBase = "http://127.0.0.1:4000/token/";
const answer = (status: number, body: string) =>
  vi.stubGlobal(
    "fetch",
    vi.fn(async () => new Response(body, { status })),
  );

afterEach(() => vi.unstubAllGlobals());

test("questions are asked below the page's own address", async () => {
  answer(200, "{}");
  await new HttpSource(kBase).get("d/0/tile?by=stack&level=0&index=0&detail=0");
  const asked = vi.mocked(fetch).mock.calls[0][0];
  expect(String(asked)).toBe(`${kBase}d/0/tile?by=stack&level=0&index=0&detail=0`);
});

test("202 is not yet, with how far it is", async () => {
  answer(202, '{"loading": "reading", "done": 0.25}');
  const asked = new HttpSource(kBase).get("scene.json");
  await expect(asked).rejects.toBeInstanceOf(StillLoading);
  await expect(asked).rejects.toMatchObject({ what: "reading", done: 0.25 });
});

test("a refusal is told in the server's words, and by its number where it has none", async () => {
  answer(400, '{"error": "at: 9 is past the end"}');
  await expect(new HttpSource(kBase).get("x")).rejects.toThrow("at: 9 is past the end");
  answer(500, "<html>");
  await expect(new HttpSource(kBase).get("x")).rejects.toThrow("500");
});

test("a server that is gone is told so", async () => {
  vi.stubGlobal("fetch", async () => {
    throw new TypeError("failed to fetch");
  });
  await expect(new HttpSource(kBase).get("x")).rejects.toThrow(/no longer answers/);
});

test("a file is posted under its name; being read is no failure, being bad is one", async () => {
  answer(202, "{}");
  await new HttpSource(kBase).open("a b&c.pickle", new Blob(["x"]));
  expect(String(vi.mocked(fetch).mock.calls[0][0])).toBe(`${kBase}open?name=a%20b%26c.pickle`);
  answer(400, '{"error": "no snapshot"}');
  await expect(new HttpSource(kBase).open("x", new Blob())).rejects.toBeInstanceOf(Refused);
});
