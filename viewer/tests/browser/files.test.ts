// SPDX-License-Identifier: Apache-2.0
//
// Tests opening files, including invalid files, and the self-contained file.
import { execFileSync } from "node:child_process";
import { mkdtempSync, readFileSync, rmSync, statSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import path from "node:path";
import { pathToFileURL } from "node:url";
import { type Browser, type Page } from "playwright-core";
import { afterAll, afterEach, beforeAll, expect, test } from "vitest";
import {
  kTool,
  kViewNames,
  openPage,
  serve,
  show,
  startBrowser,
  stopAll,
  takePicture,
  traceFile,
  writeReport,
} from "./served.ts";

let browser: Browser;
let folder: string;

beforeAll(async () => {
  browser = await startBrowser();
  folder = mkdtempSync(path.join(tmpdir(), "ashlar-viewer-"));
});

afterEach(stopAll);

afterAll(async () => {
  rmSync(folder, { recursive: true, force: true });
  await browser?.close();
});

// Once the tool has started a browser, it keeps serving even if the file was rejected. A script
// that does nothing replaces the browser; the test opens the page at the printed address.
test("shows the error for a bad file and accepts another", async () => {
  const bad = path.join(folder, "bad.pickle");
  writeFileSync(bad, "this is not a pickle");
  writeFileSync(path.join(folder, "xdg-open"), "#!/bin/sh\n", { mode: 0o755 });
  const served = await serve([bad], {
    ...process.env,
    PATH: `${folder}:${process.env.PATH}`,
    DISPLAY: ":99",
  });
  const ended = new Promise((resume) => served.tool.on("exit", resume));
  const { page } = await openPage(browser);
  await page.goto(served.address);
  await page.waitForSelector('[data-start-page="failed"]');
  expect(await page.textContent(".reason")).toContain(
    "bad.pickle: is text, neither a pickle nor JSON",
  );
  await page.keyboard.press("/"); // there is no table to search
  await takePicture(page, "bad_file");
  await page.setInputFiles(".start-page input[type=file]", bad);
  await page.waitForSelector(
    '[data-start-page="failed"] >> text=bad.pickle: is text, neither a pickle nor JSON',
  );
  await page.setInputFiles(".start-page input[type=file]", traceFile("oom.1.pickle.xz"));
  await page.waitForSelector('.timeline[data-settled="true"]');
  served.stop();
  expect(await ended).toBe(3);
  await page.close();
});

// Reading a small file is too fast to be observed, so the test simulates the server's responses.
test("shows loading progress", async () => {
  const served = await serve([traceFile("oom.1.pickle.xz")]);
  const { page, errors } = await openPage(browser);
  await page.route("**/scene.json", (route) =>
    route.fulfill({ status: 202, json: { loading: "reading run.pickle", done: 0.4 } }),
  );
  await page.goto(served.address);
  await page.waitForSelector('[data-start-page="loading"] >> text=Reading run.pickle');
  await takePicture(page, "loading");
  await page.unroute("**/scene.json");
  await page.waitForSelector('.timeline[data-settled="true"]');
  expect(errors).toEqual([]);
  served.stop();
  await page.close();
});

test("shows the final state of a file without a trace", async () => {
  const file = path.join(folder, "no_history.json");
  execFileSync(kTool, ["export", traceFile("leaky.pickle.xz"), "--to", "json", "-o", file]);
  const snapshot = JSON.parse(readFileSync(file, "utf8")) as { device_traces: unknown[][] };
  snapshot.device_traces = snapshot.device_traces.map(() => []);
  writeFileSync(file, JSON.stringify(snapshot));
  const served = await serve([file]);
  const { page, errors } = await openPage(browser);
  await show(page, served.address, "view=timeline");
  await page.waitForSelector("[data-no-history]");
  await page.keyboard.press("2");
  await page.waitForSelector('.map[data-settled="true"]');
  await page.keyboard.press("5");
  await page.waitForSelector("text=This file contains no trace");
  expect(errors).toEqual([]);
  served.stop();
  await page.close();
});

test("opens dropped files and keeps the others after a bad one", async () => {
  const served = await serve([traceFile("oom.1.pickle.xz")]);
  const { page } = await openPage(browser);
  await show(page, served.address, "view=timeline");
  await drop(page, [traceFile("leaky.pickle.xz")]);
  await page.waitForSelector("select.document >> text=leaky.pickle.xz", { state: "attached" });
  await page.waitForFunction(() => location.hash.includes("d=1"));
  const bad = path.join(folder, "dropped.pickle");
  writeFileSync(bad, "nor is this");
  await drop(page, [bad, traceFile("oom.1.pickle.xz")]);
  await page.waitForSelector(".notice");
  await page.waitForFunction(() => location.hash.includes("d=2"));
  expect(await page.locator("select.document option").count()).toBe(3);
  served.stop();
  await page.close();
});

test("self-contained file works from file:// without requests", async () => {
  const report = path.join(folder, "report.html");
  writeReport(traceFile("oom.1.pickle.xz"), report);
  expect(statSync(report).size).toBeLessThan(8 * 2 ** 20);
  const { page, requests, errors } = await openPage(browser);
  const address = pathToFileURL(report).href;
  for (const view of kViewNames) {
    await show(page, address, `view=${view}`);
    await takePicture(page, `file_${view}`);
  }
  await page.keyboard.press("]");
  await drop(page, [traceFile("leaky.pickle.xz")]);
  await page.waitForSelector(".notice >> text=ashlar view FILE");

  // The self-contained file has less data than the server. The page says so where it shows a
  // substitute.
  await show(page, address, "view=timeline&at=101");
  await page.waitForSelector("[data-moved] >> text=no data for entry 101");
  expect(await page.locator("[data-coarse]").count()).toBe(0);
  for (let i = 0; i < 6; ++i) await page.keyboard.press("Shift+ArrowUp");
  await page.waitForSelector("[data-coarse]");
  await takePicture(page, "file_coarse");
  expect(requests.filter((url) => !url.startsWith("file:") && !url.startsWith("data:"))).toEqual(
    [],
  );
  expect(errors).toEqual([]);
  await page.close();
});

// Drops local files on the page.
async function drop(page: Page, files: string[]): Promise<void> {
  const contents = files.map((file) => [
    path.basename(file),
    readFileSync(file).toString("base64"),
  ]);
  const transfer = await page.evaluateHandle((all) => {
    const transfer = new DataTransfer();
    for (const [title, text] of all) {
      const content = Uint8Array.from(atob(text), (letter) => letter.charCodeAt(0));
      transfer.items.add(new File([content], title));
    }
    return transfer;
  }, contents);
  await page.dispatchEvent(".drop", "dragover", { dataTransfer: transfer });
  await page.waitForSelector(".drop-here");
  await page.dispatchEvent(".drop", "drop", { dataTransfer: transfer });
  await page.waitForSelector(".drop-here", { state: "detached" });
}
