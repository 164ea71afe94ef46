// SPDX-License-Identifier: Apache-2.0
import { afterEach, expect, test, vi } from "vitest";
import { HttpSource } from "../../src/api/http_source.ts";
import { RequestError, StillLoading } from "../../src/api/source.ts";

const kBase = "http://127.0.0.1:4000/token/";
const respond = (status: number, body: string) =>
  vi.stubGlobal(
    "fetch",
    vi.fn(async () => new Response(body, { status })),
  );

afterEach(() => vi.unstubAllGlobals());

test("sends requests relative to the page's URL", async () => {
  respond(200, "{}");
  await new HttpSource(kBase).get("d/0/tile?by=stack&level=0&index=0&detail=0");
  const url = vi.mocked(fetch).mock.calls[0][0];
  expect(String(url)).toBe(`${kBase}d/0/tile?by=stack&level=0&index=0&detail=0`);
});

test("status 202 reports progress", async () => {
  respond(202, '{"loading": "reading", "done": 0.25}');
  const response = new HttpSource(kBase).get("scene.json");
  await expect(response).rejects.toBeInstanceOf(StillLoading);
  await expect(response).rejects.toMatchObject({ what: "reading", done: 0.25 });
});

test("reports the server's error message or its status", async () => {
  respond(400, '{"error": "at: 9 is past the end"}');
  await expect(new HttpSource(kBase).get("x")).rejects.toThrow("at: 9 is past the end");
  respond(500, "<html>");
  await expect(new HttpSource(kBase).get("x")).rejects.toThrow("500");
});

test("reports an unreachable server", async () => {
  vi.stubGlobal("fetch", async () => {
    throw new TypeError("failed to fetch");
  });
  await expect(new HttpSource(kBase).get("x")).rejects.toThrow(/does not respond/);
});

test("posts a file with its name and reports only failures", async () => {
  respond(202, "{}");
  await new HttpSource(kBase).open("a b&c.pickle", new Blob(["x"]));
  expect(String(vi.mocked(fetch).mock.calls[0][0])).toBe(`${kBase}open?name=a%20b%26c.pickle`);
  respond(400, '{"error": "no snapshot"}');
  await expect(new HttpSource(kBase).open("x", new Blob())).rejects.toBeInstanceOf(RequestError);
});
