// SPDX-License-Identifier: Apache-2.0
//
// Creates the pictures of docs/how-to/viewer.md from bundled traces:
//
//   npm run pictures
//
// Uses small windows at single pixel density, which keeps the files small.
import { mkdirSync } from "node:fs";
import path from "node:path";
import type { Page } from "playwright-core";
import { kRoot, openPage, serve, show, startBrowser, traceFile } from "./served.ts";

const kOut = path.join(kRoot, "docs/images/viewer");

interface Picture {
  name: string;
  hash: string;
  height?: number; // pixels; default: the height of the window
  before?: (page: Page) => Promise<void>;
}

const kPictures: Picture[] = [
  {
    name: "timeline",
    hash: "view=timeline&d=0&at=480",
    before: (page) => page.mouse.move(400, 520),
  },
  { name: "map", hash: "view=map&d=2&at=37000", before: (page) => clickAndLeave(page, 640, 410) },
  { name: "flame", hash: "view=flame&d=1&at=470&from=20", height: 420 },
  { name: "causes", hash: "view=causes&d=2", height: 620 },
  { name: "oom", hash: "view=oom&d=0", height: 620 },
];
const kWidth = 1240;
const kHeight = 690;

async function main(): Promise<void> {
  mkdirSync(kOut, { recursive: true });
  const names = ["oom.1", "leaky", "moe_streams.1"];
  const served = await serve(names.map((name) => traceFile(`${name}.pickle.xz`)));
  const browser = await startBrowser();
  const { page } = await openPage(browser);
  await page.setViewportSize({ width: kWidth, height: kHeight });
  for (const { name, hash, height, before } of kPictures) {
    await show(page, served.address, hash);
    await before?.(page);
    await page.waitForTimeout(400); // for the tooltip
    const clip = { x: 0, y: 0, width: kWidth, height: height ?? kHeight };
    await page.screenshot({ path: path.join(kOut, `${name}.png`), clip });
    await page.mouse.move(0, 0);
  }
  served.stop();
  await browser.close();
}

async function clickAndLeave(page: Page, x: number, y: number): Promise<void> {
  await page.mouse.click(x, y);
  await page.mouse.move(1100, 600);
}

await main();
