// SPDX-License-Identifier: Apache-2.0
//
// Tests live monitoring of a process: changing statistics, a snapshot, and the end of the process.
import { type ChildProcess, spawn } from "node:child_process";
import path from "node:path";
import { createInterface } from "node:readline";
import type { Browser } from "playwright-core";
import { afterAll, afterEach, beforeAll, expect, test } from "vitest";
import { kRoot, openPage, serve, startBrowser, stopAll, takePicture } from "./served.ts";

const kProgram =
  process.env.ASHLAR_LIVE_PROGRAM ?? path.join(kRoot, "build/release/tests/live_program");

let browser: Browser;
let program: ChildProcess | null = null;

beforeAll(async () => {
  browser = await startBrowser();
});

afterEach(() => {
  stopAll();
  program?.kill();
  program = null;
});

afterAll(async () => {
  await browser?.close();
});

// Starts the monitored program (tests/live/live_program.cc). Returns a function that sends the
// program a command and waits until the command is done.
async function startProgram(): Promise<(command: string) => Promise<void>> {
  const started = spawn(kProgram, [], { stdio: ["pipe", "pipe", "inherit"] });
  program = started;
  const lines = createInterface({ input: started.stdout })[Symbol.asyncIterator]();
  await lines.next();
  return async (command) => {
    started.stdin.write(`${command}\n`);
    for (;;) {
      const line = await lines.next();
      if (line.done || line.value === "done") return;
    }
  };
}

test("monitors a process, takes snapshots, and reports its end", async () => {
  const send = await startProgram();
  await send("record");
  const served = await serve(["--live", String(program!.pid)]);
  const { page, errors } = await openPage(browser);
  await page.goto(served.address);
  await page.waitForSelector(".live[data-samples]");
  expect(await page.textContent(".live-bar strong")).toBe(`live_program, process ${program!.pid}`);
  const row = page.locator(".live-numbers tbody tr").first();
  await row.waitFor();
  expect(await row.textContent()).toContain("0: sim:0, paged, recording");
  expect(await row.textContent()).not.toContain("64.00 MiB");
  await send("allocate");
  await page.waitForFunction(() =>
    document.querySelector(".live-numbers tbody tr")!.textContent!.includes("64.00 MiB"),
  );
  await send("pin");
  await page.waitForSelector(".live-numbers tr >> text=h0: sim:0, pinned host memory");
  await page.waitForSelector(".u-legend >> text=pinned host memory");
  await send("oom");
  await page.waitForFunction(
    () => document.querySelector(".live-numbers tbody tr td:last-child")!.textContent === "1",
  );
  await page.waitForFunction(
    () => Number(document.querySelector<HTMLElement>(".live")!.dataset.samples) >= 3,
  );
  await takePicture(page, "live");
  expect(await page.locator(".moment, .overview, .holders").count()).toBe(0);

  // The program has two allocators, so there are two documents, of which the first is shown.
  expect(await page.locator("select.document option").count()).toBe(2);
  await page.click("text=Take a snapshot now");
  await page.waitForSelector('.map[data-settled="true"]');
  expect(await page.locator("select.document option").count()).toBe(4);
  await page.waitForFunction(() => location.hash.includes("d=2"));
  await page.keyboard.press("1");
  await page.waitForSelector('.timeline[data-settled="true"]');
  await takePicture(page, "live_timeline");

  // The live view shows the present only, and no values of a snapshot.
  await page.waitForSelector(".moment .figures");
  await page.keyboard.press("l");
  await page.waitForSelector(".live[data-samples]");
  program!.stdin!.end();
  await page.waitForSelector('.note[data-over="true"] >> text=has ended');
  expect(await page.isDisabled("text=Take a snapshot now")).toBe(true);
  await takePicture(page, "live_ended");
  // The browser logs the response that reports the end.
  expect(errors.filter((text) => !text.includes("410"))).toEqual([]);
  served.stop();
  await page.close();
});

test("has no live view without a process", async () => {
  const served = await serve([path.join(kRoot, "tests/golden/traces/leaky.pickle.xz")]);
  const { page, errors } = await openPage(browser);
  await page.goto(served.address);
  await page.waitForSelector('.timeline[data-settled="true"]');
  expect(await page.locator("nav >> text=Live").count()).toBe(0);
  await page.keyboard.press("l");
  await page.waitForSelector("text=No process is monitored");
  expect(errors).toEqual([]);
  served.stop();
  await page.close();
});
