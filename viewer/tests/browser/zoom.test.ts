// SPDX-License-Identifier: Apache-2.0
//
// Tests zooming, the axis of time, regions, and links to a zoomed view, on recordings of training
// programs.
import { expect, test } from "vitest";
import { kMargin } from "../../src/draw/timeline_options.ts";
import { clickAt, drawn, kPlotPart, meanColors } from "./plot.ts";
import {
  openPage,
  recordingFile,
  show,
  spanOf,
  startBrowser,
  takePicture,
  urlWord,
} from "./served.ts";
import { watchPages } from "./watched_pages.ts";

const watched = watchPages(["transformer", "out_of_memory"].map(recordingFile));

const kTransformerEntries = 3822;

test("opens the document that ran out of memory", async () => {
  const { page } = watched;
  await page.goto(watched.address);
  await page.waitForSelector(".moment .figures");
  expect(await page.inputValue("select.document")).toBe("1");
  await page.waitForFunction(() => location.hash === "#view=timeline");
  expect(await page.textContent(".moment h2")).toBe("Entry 3,931peak");
  expect(await page.textContent("[data-near-oom]")).toBe(
    "A request for 7.25 MiB failed 1 entry later. Why?",
  );
  await page.click("[data-near-oom] >> text=1 entry later");
  await page.waitForSelector('.moment[data-moment="3932"] .badge.oom');
  expect(await page.locator("[data-near-oom]").count()).toBe(0);
});

test("W and S zoom, A and D pan", async () => {
  const { page } = watched;
  await show(page, watched.address, "view=timeline&d=0&at=1900");
  await page.mouse.move(0, 0);
  await page.keyboard.press("w");
  const zoomed = await spanOf(page);
  expect(zoomed[1] - zoomed[0]).toBeCloseTo(kTransformerEntries / 1.5, 0);
  // Zooms around the cursor.
  expect((1900.5 - zoomed[0]) / (zoomed[1] - zoomed[0])).toBeCloseTo(
    1900.5 / kTransformerEntries,
    2,
  );
  await page.keyboard.press("d");
  const right = await spanOf(page);
  expect(right[0]).toBeGreaterThan(zoomed[0]);
  await page.keyboard.press("a");
  expect(await spanOf(page)).toEqual(zoomed);
  await page.keyboard.press("s");
  await page.waitForFunction(() => !location.hash.includes("span="));
});

test("Shift and a drag zoom to a box", async () => {
  const { page } = watched;
  await show(page, watched.address, "view=timeline&d=0");
  const box = (await page.locator(".timeline").boundingBox())!;
  const width = box.width - kMargin.left - kMargin.right;
  const height = box.height - kMargin.top - kMargin.bottom;
  const at = (right: number, down: number) =>
    [box.x + kMargin.left + right * width, box.y + kMargin.top + down * height] as const;
  await page.keyboard.down("Shift");
  await page.mouse.move(...at(0.75, 0.6));
  await page.mouse.down();
  await page.mouse.move(...at(0.25, 0.2), { steps: 4 });
  await takePicture(page, "zoom_box");
  await page.mouse.up();
  await page.keyboard.up("Shift");
  const span = await spanOf(page);
  expect(span[0] / kTransformerEntries).toBeCloseTo(0.25, 2);
  expect(span[1] / kTransformerEntries).toBeCloseTo(0.75, 2);
  const [magnified, floor] = (await urlWord(page, "bytes"))!.split("@").map(Number);
  expect(magnified).toBeCloseTo(1 / 0.4, 1);
  expect(floor / (1.06 * 180 * 2 ** 20)).toBeCloseTo(0.4, 2);
  await drawn(page);
  await takePicture(page, "zoomed_to_box");
  await page.click("text=Fit");
  await page.waitForFunction(() => !/span=|bytes=/.test(location.hash));
});

test("an axis of time shows the pause before the first step", async () => {
  const { page } = watched;
  await show(page, watched.address, "view=timeline&d=1");
  const byEntry = await meanColors(page, kPlotPart);
  await page.keyboard.press("h");
  await page.waitForSelector('.choice [aria-pressed="true"] >> text="time"');
  await drawn(page);
  const byTime = await meanColors(page, kPlotPart);
  expect(Math.max(...byTime.map((channel, i) => Math.abs(channel - byEntry[i])))).toBeGreaterThan(
    40,
  );
  await takePicture(page, "timeline_by_time");

  // In the pause, in the middle of the axis, few entries have passed.
  const box = (await page.locator(".timeline").boundingBox())!;
  await page.mouse.move(box.x + 0.5 * box.width, box.y + 0.97 * box.height - kMargin.bottom);
  const text = (await page.textContent(".timeline .hover"))!;
  expect(Number(/entry([\d,]+)/.exec(text)![1].replace(",", ""))).toBeLessThan(60);

  // Zooming in keeps the selected moment in view.
  await clickAt(page, ".timeline", 0.965, 0.5);
  const at = Number(await page.getAttribute(".moment", "data-moment"));
  expect(at).toBeGreaterThan(500);
  await page.mouse.move(0, 0);
  for (let i = 0; i < 8; ++i) await page.keyboard.press("w");
  const [from, to] = await spanOf(page);
  expect(from).toBeLessThan(at + 1);
  expect(to).toBeGreaterThan(at);
  await drawn(page);
  await takePicture(page, "timeline_by_time_zoomed");
});

test("a link shows the same view in another window", async () => {
  const { page } = watched;
  const link =
    "view=timeline&d=0&at=1478&sel=stack:3&axis=time&span=800.5-1500.25&bytes=2.50@50000000";
  await show(page, watched.address, link);
  await drawn(page);
  await page.waitForFunction((words) => decodeURIComponent(location.hash) === `#${words}`, link);
  const colors = await meanColors(page, kPlotPart);
  await takePicture(page, "link");

  const browser = await startBrowser();
  const { page: other } = await openPage(browser);
  await show(other, watched.address, link);
  await drawn(other);
  expect(await meanColors(other, kPlotPart)).toEqual(colors);
  // The link replaces whatever was shown before.
  await show(
    other,
    watched.address,
    "view=timeline&d=1&by=pool&axis=entry&span=5-900&bytes=9.00@5",
  );
  await drawn(other);
  await other.evaluate((words) => (location.hash = words), link);
  await other.waitForSelector('.moment[data-moment="1478"]');
  await drawn(other);
  const after = await meanColors(other, kPlotPart);
  after.forEach((channel, i) => expect(Math.abs(channel - colors[i])).toBeLessThan(2));
  await browser.close();
});
