// Files that come in, bad ones, and the self-contained file.
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

// A small bad file is refused before a browser could ask, so the tool's answers are played back
// here: still reading, then what was wrong.
test("the page says how far reading is, and what is wrong with a bad file", async () => {
  const served = await serve([traceFile("oom.1.pickle.xz")]);
  const { page, errors } = await openPage(browser);
  let status = 202;
  await page.route("**/scene.json", (route) =>
    route.fulfill({
      status,
      json:
        status === 202
          ? { loading: "reading bad.pickle", done: 0.4 }
          : { error: "bad.pickle: byte 0 is no pickle's beginning" },
    }),
  );
  await page.goto(served.address);
  await page.waitForSelector('[data-lobby="loading"] >> text=Reading bad.pickle');
  await takePicture(page, "loading");
  status = 400;
  await page.waitForSelector('[data-lobby="failed"]');
  expect(await page.textContent(".reason")).toBe("bad.pickle: byte 0 is no pickle's beginning");
  await takePicture(page, "bad_file");
  // A refused question is logged by the browser itself; nothing else may be.
  expect(errors.filter((text) => !text.includes("400"))).toEqual([]);
  served.stop();
  await page.close();
});

test("a file without history shows what was held at the end, and says so", async () => {
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
  await page.waitForSelector("text=There is no history in this file");
  expect(errors).toEqual([]);
  served.stop();
  await page.close();
});

test("a dropped file is read beside the others; a bad one is told, and they stay", async () => {
  const served = await serve([traceFile("oom.1.pickle.xz")]);
  const { page } = await openPage(browser);
  await show(page, served.address, "view=timeline");
  await drop(page, "leaky.pickle.xz", traceFile("leaky.pickle.xz"));
  await page.waitForSelector("select.document >> text=leaky.pickle.xz", { state: "attached" });
  await page.waitForFunction(() => location.hash.includes("d=1"));
  const bad = path.join(folder, "dropped.pickle");
  writeFileSync(bad, "nor is this");
  await drop(page, "dropped.pickle", bad);
  await page.waitForSelector(".notice");
  expect(await page.locator("select.document option").count()).toBe(2);
  served.stop();
  await page.close();
});

test("a self-contained file works from file://, in every view, without any request", async () => {
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
  await drop(page, "leaky.pickle.xz", traceFile("leaky.pickle.xz"));
  await page.waitForSelector(".notice >> text=ashlar view FILE");
  expect(requests.filter((url) => !url.startsWith("file:") && !url.startsWith("data:"))).toEqual(
    [],
  );
  expect(errors).toEqual([]);
  await page.close();
});

// Drops a file of this machine on the page, as a person would.
async function drop(page: Page, name: string, file: string): Promise<void> {
  const bytes = readFileSync(file).toString("base64");
  const transfer = await page.evaluateHandle(
    ([title, text]) => {
      const transfer = new DataTransfer();
      const content = Uint8Array.from(atob(text), (letter) => letter.charCodeAt(0));
      transfer.items.add(new File([content], title));
      return transfer;
    },
    [name, bytes],
  );
  await page.dispatchEvent(".drop", "drop", { dataTransfer: transfer });
}
