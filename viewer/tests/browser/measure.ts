// SPDX-License-Identifier: Apache-2.0
//
// Measures how fast the page responds and how much memory the browser uses, on a given trace:
//
//   npm run measure -- FILE
//
// This is not a test, because times depend on the machine. "Shown" is the time at which the first
// frame after a gesture was presented, with fallbacks for tiles that are still loading; "settled"
// is the time at which the frame with all tiles was presented.
import { readFileSync } from "node:fs";
import type { Browser, Page } from "playwright-core";
import { openPage, serve, startBrowser } from "./served.ts";

const kGestures = 60;

interface Gesture {
  shown: number; // milliseconds from the input's own time stamp
  settled: number;
}

async function main(file: string): Promise<void> {
  const started = performance.now();
  const [served, browser] = await Promise.all([serve([file]), startBrowser()]);
  const { page } = await openPage(browser);
  page.setDefaultTimeout(120_000);
  await page.goto(served.address);
  await page.waitForSelector('.timeline[data-settled="true"]');
  const first = performance.now() - started;
  await page.waitForTimeout(2000);
  await recordGestures(page);
  const zooms = await gestures(page, (i) => [0, i % 12 < 6 ? -120 : 120]);
  await page.mouse.wheel(0, -400);
  await page.mouse.wheel(0, -400);
  const pans = await gestures(page, (i) => [i % 20 < 10 ? 150 : -150, 0]);
  const memory = await memoryOf(browser);
  console.log(`first timeline        ${(first / 1000).toFixed(1)} s after the command`);
  print("zoom", zooms);
  print("pan", pans);
  console.log(`memory                ${mib(memory.all)} in all processes of the browser:`);
  console.log(`                      the page ${mib(memory.page)}, drawing ${mib(memory.drawing)}`);
  served.stop();
  await browser.close();
}

// Installs listeners in the page that record the times of wheel events and of the frames that
// respond to them.
async function recordGestures(page: Page): Promise<void> {
  await page.evaluate(() => {
    const noted = { at: 0, shown: 0, settled: 0 };
    Object.assign(window, { noted });
    const host = document.querySelector(".timeline")!;
    host.addEventListener(
      "wheel",
      (event) => Object.assign(noted, { at: event.timeStamp, shown: 0, settled: 0 }),
      { capture: true },
    );
    host.addEventListener("ashlar:drawn", (event) => {
      const { settled } = (event as CustomEvent<{ settled: boolean }>).detail;
      const of = noted.at;
      // The next frame begins after this frame was presented.
      requestAnimationFrame(() => {
        if (noted.at !== of || of === 0) return;
        noted.shown ||= performance.now() - of;
        if (settled) noted.settled ||= performance.now() - of;
      });
    });
  });
}

async function gestures(page: Page, wheel: (i: number) => [number, number]): Promise<Gesture[]> {
  const box = (await page.locator(".timeline").boundingBox())!;
  const results: Gesture[] = [];
  for (let i = 0; i < kGestures; ++i) {
    const right = 0.2 + 0.6 * ((i * 7) % 10) * 0.1;
    await page.mouse.move(box.x + right * box.width, box.y + box.height / 2);
    await page.waitForTimeout(60);
    await page.mouse.wheel(...wheel(i));
    const noted = await page.waitForFunction(() => {
      const seen = (window as unknown as { noted: Gesture }).noted;
      return seen.settled > 0 && { shown: seen.shown, settled: seen.settled };
    });
    results.push((await noted.jsonValue()) as Gesture);
  }
  return results;
}

function print(name: string, results: Gesture[]): void {
  for (const what of ["shown", "settled"] as const) {
    const sorted = results.map((result) => result[what]).sort((a, b) => a - b);
    const at = (share: number) => sorted[Math.floor(share * (sorted.length - 1))].toFixed(0);
    const title = `${name}, ${what}`.padEnd(21);
    const [median, late] = [at(0.5).padStart(4), at(0.95).padStart(4)];
    console.log(`${title} ${median} ms median, ${late} ms at 95 %, ${sorted.length} gestures`);
  }
}

// Returns memory by process type. Shared memory is counted proportionally.
async function memoryOf(browser: Browser): Promise<{ all: number; page: number; drawing: number }> {
  const session = await browser.newBrowserCDPSession();
  const { processInfo } = await session.send("SystemInfo.getProcessInfo");
  const sum = { all: 0, page: 0, drawing: 0 };
  for (const { id, type } of processInfo) {
    const rollup = readFileSync(`/proc/${id}/smaps_rollup`, "utf8");
    const bytes = 1024 * Number(/^Pss:\s+(\d+)/m.exec(rollup)![1]);
    sum.all += bytes;
    if (type === "renderer") sum.page += bytes;
    if (type === "GPU") sum.drawing += bytes;
  }
  return sum;
}

function mib(bytes: number): string {
  return `${Math.round(bytes / 2 ** 20)} MiB`;
}

const file = process.argv[2];
if (!file) throw new Error("measure: no FILE; npm run measure -- FILE");
await main(file);
