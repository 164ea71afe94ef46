// Makes the pictures of docs/guide/viewer.md from bundled traces:
//
//   npm run pictures
//
// Small windows at single density, so that each stays a fraction of what a screen would be.
import { mkdirSync } from "node:fs";
import path from "node:path";
import type { Page } from "playwright-core";
import { kRoot, openPage, serve, show, startBrowser, traceFile } from "./served.ts";

const kOut = path.join(kRoot, "docs/guide/viewer");

const kPictures: { name: string; hash: string; before?: (page: Page) => Promise<void> }[] = [
  { name: "timeline", hash: "view=timeline&d=0&at=480", before: (page) => point(page, 0.45, 0.75) },
  {
    name: "map",
    hash: "view=map&d=2&at=37000",
    before: (page) => click(page, ".map", 0.2, 0.62),
  },
  { name: "flame", hash: "view=flame&d=1&at=470&from=20" },
  { name: "causes", hash: "view=causes&d=2" },
];

async function main(): Promise<void> {
  mkdirSync(kOut, { recursive: true });
  const names = ["oom.1", "leaky", "moe_streams.1"];
  const served = await serve(names.map((name) => traceFile(`${name}.pickle.xz`)));
  const browser = await startBrowser();
  const { page } = await openPage(browser);
  await page.setViewportSize({ width: 1240, height: 690 });
  for (const { name, hash, before } of kPictures) {
    await show(page, served.address, hash);
    await before?.(page);
    await page.waitForTimeout(400); // for what hovering shows
    await page.screenshot({ path: path.join(kOut, `${name}.png`) });
    await page.mouse.move(0, 0);
  }
  served.stop();
  await browser.close();
}

async function point(page: Page, right: number, down: number): Promise<void> {
  const box = (await page.locator(".timeline").boundingBox())!;
  await page.mouse.move(box.x + right * box.width, box.y + down * box.height);
}

async function click(page: Page, selector: string, right: number, down: number): Promise<void> {
  const box = (await page.locator(selector).boundingBox())!;
  await page.mouse.click(box.x + right * box.width, box.y + down * box.height);
  await page.mouse.move(box.x, box.y);
}

await main();
