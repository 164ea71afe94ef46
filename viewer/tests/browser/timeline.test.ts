// SPDX-License-Identifier: Apache-2.0
//
// Tests keys, pointer and marks of the timeline, on traces with known contents.
import type { Page } from "playwright-core";
import { expect, test } from "vitest";
import { colorAt, drawn, isDrawnNear, markPlaceOf, placeOf, type Point } from "./plot.ts";
import { show, takePicture, traceFiles } from "./served.ts";
import { watchPages } from "./watched_pages.ts";

const watched = watchPages(traceFiles(["oom.1", "leaky", "moe_streams.1", "graph_pools.1"]));

const kMiB = 2 ** 20;
const kOom = { entries: 813, reservedPeak: 2_998_927_360 };
const kLeaky = { entries: 484, reservedPeak: 940 * kMiB };
const kStreams = { entries: 62_324, reservedPeak: 5_314_183_168 };
const kPools = { entries: 2_003, reservedPeak: 645_922_816 };

test("key g groups by allocation, stack, category, stream and pool", async () => {
  const { page } = watched;
  await show(page, watched.address, "view=timeline&d=1");
  const inWeights = await placeOf(page, kLeaky, { entry: 240, bytes: 250 * kMiB });
  const inNothing = await placeOf(page, kLeaky, { entry: 240, bytes: 900 * kMiB });
  for (const [by, message] of [
    ["allocation", /^400\.00 MiB allocation 0.*train/],
    ["stack", /^400\.00 MiBtrain .*train\.py/],
    ["category", /^[\d.]+ MiB ?parameters/],
    ["stream", /^698\.00 MiBthe default stream/],
    ["pool", /^698\.00 MiBpool default/],
  ] as const) {
    await page.waitForSelector(`.choice [aria-pressed="true"] >> text="${by}"`);
    await drawn(page);
    expect(await colorAt(page, inWeights)).not.toBe(await colorAt(page, inNothing));
    expect(await hoverText(page, inWeights)).toMatch(message);
    await takePicture(page, `timeline_by_${by}`);
    await page.mouse.move(0, 0);
    await page.keyboard.press("g");
  }
  await page.waitForSelector('.choice [aria-pressed="true"] >> text="allocation"');
});

test("draws stacks in the colours of the list of largest stacks", async () => {
  const { page } = watched;
  await show(page, watched.address, "view=timeline&d=1&by=stack");
  const inWeights = await placeOf(page, kLeaky, { entry: 240, bytes: 250 * kMiB });
  const inLosses = await placeOf(page, kLeaky, { entry: 470, bytes: 500 * kMiB });
  const listed = await page.$$eval(".holders:not(.categories) .swatch", (all) =>
    all.map((each) => getComputedStyle(each).backgroundColor),
  );
  expect(await colorAt(page, inWeights)).toBe(listed[0]);
  expect(await colorAt(page, inLosses)).toBe(listed[1]);
});

test.each([
  ["stream", /the default stream/, /stream 0x/],
  ["pool", /pool default/, /pool \d+:1/],
])("shows every %s of a run with several", async (by, below, above) => {
  const { page } = watched;
  await show(page, watched.address, `view=timeline&d=3&by=${by}`);
  const low = await placeOf(page, kPools, { entry: 1993, bytes: 15 * kMiB });
  const high = await placeOf(page, kPools, { entry: 1993, bytes: 150 * kMiB });
  expect(await colorAt(page, low)).not.toBe(await colorAt(page, high));
  expect(await hoverText(page, low)).toMatch(below);
  expect(await hoverText(page, high)).toMatch(above);
});

test("tooltip shows size, age and stack of an allocation", async () => {
  const { page } = watched;
  await show(page, watched.address, "view=timeline&d=1");
  const place = await placeOf(page, kLeaky, { entry: 240, bytes: 250 * kMiB });
  const message = await hoverText(page, place);
  expect(message).toContain("400.00 MiB");
  expect(message).toContain("237 entries old, never freed");
  expect(message).toContain("llm/train.py");
  expect(message).toContain("entry240 · 240 ms");
  expect(message).toContain("reserved940.00 MiB");
  await page.mouse.move(0, 0);
  await page.waitForSelector(".timeline .hover", { state: "detached" });
});

test("key o goes to the out-of-memory failure and shows the request", async () => {
  const { page } = watched;
  await show(page, watched.address, "view=timeline");
  await page.keyboard.press("o");
  await page.waitForSelector('.moment[data-moment="480"] .badge.oom');
  expect(await page.textContent("[data-oom]")).toBe(
    "25.78 MiB could not be allocated here, although the device had 135.68 GiB free: " +
      "the process had a memory limit.",
  );
  await page.keyboard.press("]");
  await page.waitForSelector('.moment[data-moment="481"]');
  expect(await page.locator("[data-oom]").count()).toBe(0);
  await page.keyboard.press("o"); // wraps around, because there is no later error
  await page.waitForSelector('.moment[data-moment="480"]');
});

test("marks out-of-memory failures with a tooltip", async () => {
  const { page } = watched;
  await show(page, watched.address, "view=timeline");
  const color = await colorNamed(page, "--oom");
  const mark = await markPlaceOf(page, kOom, 480);
  const nothing = { ...mark, x: mark.x - 60 };
  expect(await isDrawnNear(page, mark, color)).toBe(true);
  expect(await isDrawnNear(page, nothing, color)).toBe(false);
  await page.mouse.move(mark.x, mark.y);
  await page.waitForSelector('.timeline [data-mark] >> text="out of memory"');
  await page.mouse.move(nothing.x, nothing.y);
  await page.waitForSelector(".timeline [data-mark]", { state: "detached" });
});

test("marks single annotations and shows their text in tooltip and panel", async () => {
  const { page } = watched;
  await page.route("**/scene.json", async (route) => {
    const response = await route.fetch();
    const scene = (await response.json()) as { documents: { annotations: unknown[] }[] };
    scene.documents[2].annotations = [{ entry: 1818, text: "epoch 7" }];
    await route.fulfill({ response, json: scene });
  });
  await show(page, watched.address, "view=timeline&d=2&at=1900");
  await page.waitForSelector("text=/Shown: only the first 1 of 120 annotations/");
  await page.keyboard.press("p");
  await drawn(page);
  const mark = await markPlaceOf(page, kStreams, 1818);
  expect(await isDrawnNear(page, mark, await colorNamed(page, "--mark"))).toBe(true);
  await page.mouse.move(mark.x, mark.y);
  await page.waitForSelector(`.timeline [data-mark] >> text="epoch 7"`);
});

test("shows the last annotation before the moment in the panel", async () => {
  const { page } = watched;
  await show(page, watched.address, "view=timeline&d=2&at=1900");
  const words = "Optimizer.step#AdamW.step START";
  expect(await page.textContent("[data-annotation]")).toBe(`after “${words}”`);
  await show(page, watched.address, "view=timeline&d=2&at=1800");
  await page.waitForSelector('.moment[data-moment="1800"]');
  expect(await page.locator("[data-annotation]").count()).toBe(0);
});

test("reports the number of truncated annotations", async () => {
  const { page } = watched;
  await page.route("**/scene.json", async (route) => {
    const response = await route.fetch();
    const scene = (await response.json()) as { documents: { annotations: unknown[] }[] };
    scene.documents[2].annotations.splice(2);
    await route.fulfill({ response, json: scene });
  });
  await show(page, watched.address, "view=timeline&d=2&at=30000");
  await page.waitForSelector("text=Earlier annotations are not included");
  await page.waitForSelector("text=Shown: only the first 2 of 120 annotations.");
  expect(await page.locator("[data-annotation]").count()).toBe(0);
});

test("draws the lines of the legend at the right heights and colours", async () => {
  const { page } = watched;
  await show(page, watched.address, "view=timeline&d=1&at=242");
  expect(await page.textContent(".legend")).toMatch(/reserved\s+requested\s+lower bound/);
  const figures = await page.$$eval(".moment .figures dd", (all) =>
    all.map((each) => parseFloat(each.textContent!)),
  );
  await page.keyboard.press("p"); // moves the cursor's line away
  await drawn(page);
  const lines = { requested: figures[0], reserved: figures[1], bound: 848 };
  expect(lines.reserved).toBe(940);
  for (const [name, amount] of Object.entries(lines)) {
    const color = await page.$eval(
      `.legend .line.${name}`,
      (each) => getComputedStyle(each).borderTopColor,
    );
    const place = await placeOf(page, kLeaky, { entry: 242, bytes: amount * kMiB });
    expect(await isDrawnNear(page, place, color, 6), name).toBe(true);
    const elsewhere = { ...place, y: place.y - 25 };
    expect(await isDrawnNear(page, elsewhere, color, 6), name).toBe(false);
  }
});

test("keys b and x set and swap two moments for the flame graph", async () => {
  const { page } = watched;
  await show(page, watched.address, "view=flame&d=1&at=20");
  await page.keyboard.press("b");
  await page.waitForSelector("text=Compared with entry 20 (B).");
  for (const [key, moment] of [
    ["}", 25], // a hundredth of 484 entries, rounded
    ["}", 30],
    ["{", 25],
  ] as const) {
    await page.keyboard.press(key);
    await page.waitForSelector(`.moment[data-moment="${moment}"]`);
  }
  await page.keyboard.press("p");
  await page.waitForSelector("text=/from entry 20 .B. to entry 477 .A./");
  const grown = await leakTitle(page);
  expect(grown).toMatch(/\+230\.00 MiB$/);
  await page.keyboard.press("x");
  await page.waitForSelector("text=/from entry 477 .B. to entry 20 .A./");
  expect(await leakTitle(page)).toBe(grown.replace("+", "−"));
  await takePicture(page, "flame_swapped");
  await page.keyboard.press("b");
  await page.waitForSelector("text=/live at entry 20$/");
  expect(await page.locator("text=Compared with entry").count()).toBe(0);
});

test("Alt-click sets only the second moment", async () => {
  const { page } = watched;
  await show(page, watched.address, "view=timeline&d=1");
  const place = await placeOf(page, kLeaky, { entry: 100, bytes: 250 * kMiB });
  await page.keyboard.down("Alt");
  await page.mouse.click(place.x, place.y);
  await page.keyboard.up("Alt");
  await page.waitForSelector("text=/Compared with entry (99|100|101) .B./");
  expect(await page.getAttribute(".moment", "data-moment")).toBe("477");
  expect(await page.locator("[data-selected]").count()).toBe(0);
  await page.mouse.move(0, 0);
  await drawn(page);
  expect(await isDrawnNear(page, place, await colorNamed(page, "--cursor"), 6)).toBe(true);
  await takePicture(page, "timeline_two_moments");
});

async function hoverText(page: Page, at: Point): Promise<string> {
  await page.mouse.move(at.x, at.y);
  return (await page.textContent(".timeline .hover"))!;
}

// Returns the computed value of a colour variable of the style sheet.
function colorNamed(page: Page, name: string): Promise<string> {
  return page.evaluate((variable) => {
    const probe = document.createElement("i");
    probe.style.color = `var(${variable})`;
    document.body.append(probe);
    const { color } = getComputedStyle(probe);
    probe.remove();
    return color;
  }, name);
}

// Returns the tooltip of the leaking frame, append_loss, in the flame graph.
async function leakTitle(page: Page): Promise<string> {
  return (await page.getAttribute(".flame-box[title^='append_loss']", "title"))!;
}
