// SPDX-License-Identifier: Apache-2.0
import { beforeEach, expect, test, vi } from "vitest";
import type { DocumentScene, Scene } from "../../src/api/scene.ts";
import { RequestError, type Source, StillLoading } from "../../src/api/source.ts";
import * as session from "../../src/session.ts";
import * as state from "../../src/state.ts";
import { hash, readHash } from "../../src/url.ts";
import { encodeColumns } from "../fake_server.ts";

const document = (moments: number[] | null) =>
  ({ entries: 1000, reserved_peak: { entry: 600 }, moments }) as DocumentScene;

// Returns a source with these responses for scene.json, in order, and fixed responses for all other
// paths. The last response is repeated.
function sourceOf(client: (() => ArrayBuffer)[]): Source {
  return {
    kind: "server",
    get: async (path) => {
      if (path === "scene.json") return (client.length > 1 ? client.shift()! : client[0])();
      if (path.endsWith("stacks.json")) return text({ frames: [], stacks: [] });
      if (path.endsWith("times")) {
        return encodeColumns({ entry: ["u32", [0, 999]], time_us: ["f64", [0, 1e6]] });
      }
      return encodeColumns({
        stack: ["u32", []],
        bytes: ["f64", []],
        count: ["u32", []],
        split_stack: ["u32", []],
        split_category: ["u8", []],
        split_bytes: ["f64", []],
        split_count: ["u32", []],
      });
    },
    open: async () => {
      throw new RequestError("x.pickle: no snapshot");
    },
    takeSnapshot: async () => {},
  };
}

const text = (value: unknown) =>
  new TextEncoder().encode(JSON.stringify(value)).buffer as ArrayBuffer;
const sceneOf = (documents: DocumentScene[], default_document = 0) =>
  text({ version: 1, program: "", default_document, documents } as Scene);

beforeEach(() => {
  state.defaultDocument.value = 0;
  readHash("");
  session.scene.value = null;
  session.failure.value = null;
  session.notice.value = null;
});

test("defaults to the peak and clamps the moment to the trace", async () => {
  await session.start(sourceOf([() => sceneOf([document(null)])]));
  expect(session.moment.value).toBe(600);
  state.cursor.value = 123_456;
  expect(session.moment.value).toBe(999);
});

test("the cursor steps by entries and stops at both ends", async () => {
  await session.start(sourceOf([() => sceneOf([document(null)])]));
  session.stepCursor(-1);
  expect(session.moment.value).toBe(599);
  session.stepCursor(-10_000);
  expect(session.moment.value).toBe(0);
});

test("self-contained file uses the nearest available moment", async () => {
  await session.start(sourceOf([() => sceneOf([document([0, 600, 990])])]));
  state.cursor.value = 700;
  expect(session.moment.value).toBe(600);
  session.stepCursor(1);
  expect(session.moment.value).toBe(990);
  session.stepCursor(1);
  expect(session.moment.value).toBe(990);
});

test("reports progress while a file is loading", async () => {
  const seen: unknown[] = [];
  const stop = session.waiting.subscribe((value) => void seen.push(value));
  const loading = () => {
    throw new StillLoading("reading run.pickle", 0.5);
  };
  await session.start(sourceOf([loading, () => sceneOf([document(null)])]));
  stop();
  expect(seen).toContainEqual({ what: "reading run.pickle", done: 0.5 });
  expect(session.waiting.value).toBe(null);
  expect(session.shown.value?.entries).toBe(1000);
});

test("reports the error message for a bad file", async () => {
  const bad = () => {
    throw new RequestError("run.pickle is not a snapshot");
  };
  await session.start(sourceOf([bad]));
  expect(session.failure.value).toBe("run.pickle is not a snapshot");
});

test("shows the default document unless the link names another", async () => {
  const other = { ...document(null), entries: 77, reserved_peak: { entry: 5 } } as DocumentScene;
  const source = sourceOf([() => sceneOf([document(null), other], 1)]);
  readHash("#view=map&at=33&span=10-40");
  await session.start(source);
  expect(session.shown.value?.entries).toBe(77);
  expect(session.moment.value).toBe(33); // the other fields of the link apply to this document
  expect(hash.value).toBe("#view=map&at=33&span=10-40");

  session.scene.value = null;
  state.defaultDocument.value = 0; // as in a new page
  readHash("#view=map&d=0&at=33");
  await session.start(source);
  expect(session.shown.value?.entries).toBe(1000);
  expect(hash.value).toBe("#view=map&d=0&at=33");
});

test("an axis of time needs times", async () => {
  readHash("#axis=time");
  const timed = sourceOf([() => sceneOf([document(null)])]);
  await session.start(timed);
  await vi.waitFor(() => expect(session.hasTimes.value).toBe(true));
  expect(session.axis.value.kind).toBe("time");
  expect(session.shownSpan.value.to).toBeCloseTo(1000);

  session.scene.value = null;
  const get = async (path: string) => {
    if (path.endsWith("times")) throw new RequestError("this file has no times");
    return timed.get(path);
  };
  await session.start({ ...timed, get });
  expect(session.axis.value.kind).toBe("entry");
});

test("shows the first document for an unknown number", async () => {
  await session.start(sourceOf([() => sceneOf([document(null)])]));
  readHash("#view=timeline&d=9&at=3");
  expect(session.shown.value?.entries).toBe(1000);
  expect(state.documentNumber.value).toBe(0);
});

test("clamps a span beyond the end", async () => {
  await session.start(sourceOf([() => sceneOf([document(null)])]));
  readHash("#span=5000-5100");
  expect(session.shownSpan.value).toEqual({ from: 900, to: 1000 });
});

test("opens files in order and skips bad ones", async () => {
  const opened: string[] = [];
  const documents = [document(null)];
  const source: Source = {
    ...sourceOf([() => sceneOf(documents)]),
    open: async (name) => {
      if (name === "bad") throw new RequestError("bad: no snapshot");
      opened.push(name);
      documents.push(document(null));
    },
  };
  await session.start(source);
  await session.openFiles(["bad", "one", "two"].map((name) => ({ name }) as File));
  expect(opened).toEqual(["one", "two"]);
  expect(session.scene.value?.documents.length).toBe(3);
  expect(state.documentNumber.value).toBe(1);
  expect(session.notice.value).toBe("bad: no snapshot");
});

test("opens another file after a bad one, with progress", async () => {
  let isReadable = false;
  const scene = () => {
    if (!isReadable) throw new RequestError("run.pickle is not a snapshot");
    return sceneOf([document(null)]);
  };
  const source: Source = {
    ...sourceOf([scene]),
    open: async (name) => {
      if (name === "bad") throw new RequestError("bad: no snapshot");
      expect(session.waiting.value?.what).toBe("reading good");
      isReadable = true;
    },
  };
  await session.start(source);
  await session.openFiles([{ name: "bad" } as File]);
  expect(session.failure.value).toBe("bad: no snapshot");
  await session.openFiles([{ name: "good" } as File]);
  expect(session.failure.value).toBe(null);
  expect(session.shown.value?.entries).toBe(1000);
});

test("keeps the open documents after a bad file", async () => {
  await session.start(sourceOf([() => sceneOf([document(null)])]));
  await session.openFiles([{ name: "x.pickle" } as File]);
  expect(session.notice.value).toBe("x.pickle: no snapshot");
  expect(session.shown.value?.entries).toBe(1000);
});
