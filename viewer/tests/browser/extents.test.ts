// SPDX-License-Identifier: Apache-2.0
//
// Tests extents of views, from a file, a self-contained file and a running process.
import { type ChildProcess, spawn } from "node:child_process";
import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import path from "node:path";
import { createInterface } from "node:readline";
import { pathToFileURL } from "node:url";
import type { Browser, Page } from "playwright-core";
import { afterAll, afterEach, beforeAll, expect, test } from "vitest";
import {
  kRoot,
  openPage,
  serve,
  show,
  startBrowser,
  stopAll,
  takePicture,
  traceFile,
  writeReport,
} from "./served.ts";

const kProgram =
  process.env.ASHLAR_LIVE_PROGRAM ?? path.join(kRoot, "build/release/tests/live_program");

let browser: Browser;
let folder: string;
let file: string; // a recording of the paged engine
let program: ChildProcess;
let send: (command: string) => Promise<void>;

// The program (tests/live/live_program.cc) has a block stitched from holes, and idle memory.
beforeAll(async () => {
  browser = await startBrowser();
  folder = mkdtempSync(path.join(tmpdir(), "ashlar-extents-"));
  file = path.join(folder, "paged.pickle");
  program = spawn(kProgram, [], { stdio: ["pipe", "pipe", "inherit"] });
  const lines = createInterface({ input: program.stdout! })[Symbol.asyncIterator]();
  await lines.next();
  send = async (command) => {
    program.stdin!.write(`${command}\n`);
    for (;;) {
      const line = await lines.next();
      if (line.done || line.value === "done") return;
    }
  };
  await send("record");
  await send("stitch");
  await send(`save ${file}`);
});

afterEach(stopAll);

afterAll(async () => {
  program?.kill();
  rmSync(folder, { recursive: true, force: true });
  await browser?.close();
});

// Moves the pointer over the map, line by line, until the tooltip matches. Returns its text.
async function findOnMap(page: Page, wanted: RegExp): Promise<string> {
  const box = (await page.locator(".map").boundingBox())!;
  for (let y = 8; y < box.height; y += 11) {
    for (let x = 24; x < box.width - 16; x += 90) {
      await page.mouse.move(box.x + x, box.y + y);
      const tooltip = (await page.locator(".hover.fixed").allTextContents()).join("");
      if (wanted.test(tooltip)) return tooltip;
    }
  }
  throw new Error(`no tooltip of the map matches ${wanted}`);
}

async function clickHere(page: Page): Promise<void> {
  await page.mouse.down();
  await page.mouse.up();
}

async function expectExtentDetails(page: Page, picture: string): Promise<void> {
  await page.waitForSelector("text=in use elsewhere");
  await findOnMap(page, /live.*in use at0x[0-9a-f]+also mapped at0x/);
  const extent = await page.getAttribute("[data-hover-extent]", "data-hover-extent");
  await clickHere(page);
  await page.waitForSelector(`[data-extent="${extent}"]`);
  expect(await page.textContent("[data-held]")).toMatch(/^1 live block occupies .* of it/);
  expect(await page.textContent("[data-mappings]")).toMatch(/It is also mapped at 0x/);
  expect(await page.locator(".extent .pins li").count()).toBe(1);
  await takePicture(page, picture);
}

test("shows extents of a view, those in use elsewhere, and idle ones", async () => {
  const served = await serve([file]);
  const { page, errors } = await openPage(browser);
  await show(page, served.address, "view=map&at=1000000000"); // the last moment
  await expectExtentDetails(page, "map_extents");

  await findOnMap(page, /extent in use elsewhere.*in use at0x[0-9a-f]+also mapped at0x/);
  await clickHere(page);
  expect(await page.textContent("[data-held]")).toMatch(/^1 live block occupies/);
  await takePicture(page, "map_extent_away");

  await findOnMap(page, /idle extent/);
  await clickHere(page);
  expect(await page.textContent("[data-held]")).toMatch(/^It is idle/);
  await takePicture(page, "map_extent_idle");
  expect(errors).toEqual([]);
  await page.close();
});

test("extents follow the moment", async () => {
  const served = await serve([file]);
  const { page, errors } = await openPage(browser);
  await show(page, served.address, "view=map&at=3");
  const tooltip = await findOnMap(page, /in use at0x/);
  expect(tooltip).toMatch(/also mapped atnone/); // nothing has moved yet
  expect(errors).toEqual([]);
  await page.close();
});

test("shows the same in a self-contained file", async () => {
  const report = path.join(folder, "report.html");
  writeReport(file, report);
  const { page, errors } = await openPage(browser);
  await page.goto(`${pathToFileURL(report)}#view=map&at=1000000000`);
  await page.waitForSelector('.map[data-settled="true"]');
  await expectExtentDetails(page, "map_extents_report");
  expect(errors).toEqual([]);
  await page.close();
});

test("shows the same for a running process", async () => {
  const served = await serve(["--live", String(program.pid)]);
  const { page, errors } = await openPage(browser);
  await page.goto(served.address);
  await page.waitForSelector(".live[data-samples]");
  await page.keyboard.press("2");
  await page.waitForSelector('.map[data-settled="true"]');
  await expectExtentDetails(page, "map_extents_live");
  expect(errors).toEqual([]);
  await page.close();
});

test("does not mention extents for traces without them", async () => {
  const served = await serve([traceFile("oom.1.pickle.xz")]);
  const { page, errors } = await openPage(browser);
  await show(page, served.address, "view=map");
  expect(await page.locator("text=extent in use here").count()).toBe(0);
  await findOnMap(page, /live.*size of the segment/);
  expect(await page.locator("[data-hover-extent]").count()).toBe(0);
  expect(errors).toEqual([]);
  await page.close();
});
