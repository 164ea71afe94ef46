// SPDX-License-Identifier: Apache-2.0
import { beforeEach, expect, test } from "vitest";
import { ViewClient } from "../../src/api/client.ts";
import type { Source } from "../../src/api/source.ts";
import * as selected from "../../src/selection_details.ts";
import { client } from "../../src/session.ts";
import * as state from "../../src/state.ts";
import { readHash } from "../../src/url.ts";
import { encodeColumns } from "../fake_server.ts";

// A source with one allocation: id 7, stack 3, stream 1, pool 0.
const source: Source = {
  kind: "server",
  get: async (path) => {
    if (!path.endsWith("id=7")) throw new Error("there is no such allocation");
    return encodeColumns({
      total: ["f64", [1]],
      id: ["u32", [7]],
      bytes: ["f64", [512]],
      made: ["u32", [1]],
      freed: ["u32", [2]],
      made_us: ["f64", [0]],
      freed_us: ["f64", [0]],
      address: ["u64", [4096n]],
      stack: ["u32", [3]],
      stream: ["u32", [1]],
      pool: ["u32", [0]],
      category: ["u8", [0]],
    });
  },
  open: async () => {},
  takeSnapshot: async () => {},
};

const settle = () => new Promise((resume) => setTimeout(resume));
const owns = () => [
  selected.selectedStack.value,
  selected.selectedStream.value,
  selected.selectedPool.value,
];

beforeEach(() => {
  readHash("");
  client.value = new ViewClient(source);
});

test("selects stack, stream and pool of a selected allocation", async () => {
  selected.followSelection();
  state.select("allocation", 7);
  expect(owns()).toEqual([null, null, null]);
  await settle();
  expect(owns()).toEqual([3, 1, 0]);
  state.select("stack", 9);
  expect(owns()).toEqual([9, null, null]);
  state.select("allocation", 8);
  await settle();
  expect(owns()).toEqual([null, null, null]);
  expect(selected.selectedRow.value?.error).toBe("there is no such allocation");
});
