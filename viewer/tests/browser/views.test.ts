// SPDX-License-Identifier: Apache-2.0
//
// Tests every view on bundled traces served by the real tool. All views follow the same moment and
// selection. Screenshots of each view in both themes are kept for inspection.
import { describe, expect, test } from "vitest";
import { clickAt, kPlotPart, meanColors } from "./plot.ts";
import { kViewNames, show, spanOf, takePicture, traceFiles } from "./served.ts";
import { watchPages } from "./watched_pages.ts";

const watched = watchPages(traceFiles(["oom.1", "leaky", "moe_streams.1"]));

describe.each(kViewNames)("%s", (view) => {
  test("opens, light and dark", async () => {
    await show(watched.page, watched.address, `view=${view}`);
    if (view === "compare") await watched.page.waitForSelector(".u-legend");
    await takePicture(watched.page, `${view}_light`);
    await watched.page.keyboard.press("t");
    await watched.page.waitForSelector('html[data-theme="dark"]');
    await watched.page.waitForTimeout(300); // needed only for the picture
    await takePicture(watched.page, `${view}_dark`);
  });

  test("opens on a trace without stacks, with several streams", async () => {
    const { page } = watched;
    if (view === "flame") {
      await page.goto(`${watched.address}#view=flame&d=2`);
      await page.waitForSelector("text=This trace has no stacks");
    } else {
      await show(page, watched.address, `view=${view}&d=2&at=30000`);
    }
  });
});

test.each(["timeline", "map"])("WebGL2 and a plain canvas draw the same %s", async (view) => {
  const { page } = watched;
  const colors: number[][] = [];
  for (const painter of ["webgl2", "canvas"]) {
    await page.goto(`${watched.address}?draw=${painter}#view=${view}&d=2&at=30000`);
    await page.waitForSelector(`[data-painter="${painter}"][data-settled="true"]`);
    colors.push(await meanColors(page, kPlotPart));
    await takePicture(page, `${view}_by_${painter}`);
  }
  colors[0].forEach((channel, i) => expect(Math.abs(channel - colors[1][i])).toBeLessThan(6));
});

test("a click in the timeline sets the cursor and the selection for all views", async () => {
  const { page } = watched;
  await show(page, watched.address, "view=timeline");
  await clickAt(page, ".timeline", 0.5, 0.8);
  await page.waitForSelector("[data-selected^='allocation:']");
  const chosen = await page.getAttribute("[data-selected]", "data-selected");
  const at = await page.getAttribute(".moment", "data-moment");
  expect(Number(at)).not.toBe(476);

  await page.keyboard.press("2");
  await page.waitForSelector(`.map[data-at="${at}"]`);
  expect(await page.getAttribute("[data-selected]", "data-selected")).toBe(chosen);
});

test("choosing a table row selects the allocation in all views", async () => {
  const { page } = watched;
  await show(page, watched.address, "view=table");
  await page.click(".row[data-id] >> nth=3");
  await page.waitForSelector('.row[data-id][aria-selected="true"]');
  const id = await page.getAttribute('.row[aria-selected="true"]', "data-id");
  expect(await page.getAttribute("[data-selected]", "data-selected")).toBe(`allocation:${id}`);
  await page.click("text=In the address map");
  await page.waitForSelector('.map[data-settled="true"]');
  await page.waitForFunction((sel) => location.hash.includes(sel), `sel=allocation:${id}`);
});

test("selecting a stack in the flame graph selects it in the table", async () => {
  const { page } = watched;
  await show(page, watched.address, "view=flame&d=1");
  await page.click(".flame-box >> text=/append_loss|__init__/ >> nth=0");
  await page.waitForSelector("[data-selected^='stack:']");
  const id = (await page.getAttribute("[data-selected]", "data-selected"))!.split(":")[1];
  await page.keyboard.press("4");
  await page.click("text=stacks >> nth=0");
  await page.waitForSelector(`.stacks .row[data-id="${id}"][aria-selected="true"]`);
});

test("keys step through the trace and the map follows", async () => {
  const { page } = watched;
  await show(page, watched.address, "view=map&at=100");
  await page.keyboard.press("ArrowRight");
  await page.waitForSelector('.map[data-at="101"]');
  await page.keyboard.press("[");
  await page.keyboard.press("[");
  await page.waitForSelector('.map[data-at="99"]');
  await page.keyboard.press("p");
  await page.waitForSelector('.map[data-at="476"]');
});

test("shows what pins a segment", async () => {
  const { page } = watched;
  await show(page, watched.address, "view=map");
  await clickAt(page, ".map", 0.08, 0.06); // the first segment of the first line
  expect(await page.textContent(".story h3")).toContain("Segment 0x");
  expect(await page.textContent("[data-pinned]")).toBe(
    "1 live block of 26.88 MiB (96 % of 28.00 MiB) pins this segment: the 1.12 MiB around it " +
      "cannot be released. It is 1 entry old, allocated by oom  projects/llm/record.py:132.",
  );
  await takePicture(page, "map_segment");
});

test("compares two moments in flame graph and table", async () => {
  const { page } = watched;
  await show(page, watched.address, "view=flame&d=1&at=470&from=20");
  await page.waitForSelector("text=/from entry 20/");
  await takePicture(page, "flame_difference");
  await page.keyboard.press("4");
  await page.click("text=stacks >> nth=0");
  await page.waitForSelector("text=since B");
});

test("wheel and keys zoom, dragging pans, and 0 shows everything again", async () => {
  const { page } = watched;
  await show(page, watched.address, "view=timeline&d=2");
  const box = (await page.locator(".timeline").boundingBox())!;
  await page.mouse.move(box.x + box.width / 2, box.y + box.height / 2);
  await page.mouse.wheel(0, -400);
  await page.waitForFunction(() => location.hash.includes("span="));
  const zoomed = await spanOf(page);
  await page.mouse.down();
  await page.mouse.move(box.x + box.width / 2 - 200, box.y + box.height / 2, { steps: 4 });
  await page.mouse.up();
  const panned = await spanOf(page);
  expect(panned[0]).toBeGreaterThan(zoomed[0]);
  expect(panned[1] - panned[0]).toBeCloseTo(zoomed[1] - zoomed[0], -1);
  await page.keyboard.press("ArrowUp");
  const nearer = await spanOf(page);
  expect(nearer[1] - nearer[0]).toBeLessThan(panned[1] - panned[0]);
  await page.waitForSelector('.timeline[data-settled="true"]');
  await takePicture(page, "timeline_zoomed");
  await page.keyboard.press("0");
  await page.waitForFunction(() => !location.hash.includes("span="));
});

test("the table sorts, searches and scrolls to its end", async () => {
  const { page } = watched;
  await show(page, watched.address, "view=table&d=1");
  await page.click("text=allocated at");
  await page.waitForSelector('[aria-sort="descending"] >> text=allocated at');
  const total = Number(await page.getAttribute(".table", "data-total"));
  await page.evaluate(() => document.querySelector(".rows")!.scrollTo({ top: 1e9 }));
  await page.waitForFunction((most) => {
    const last = [...document.querySelectorAll(".row-place")].pop() as HTMLElement;
    return last.style.transform.includes(`${(most - 1) * 28}px`);
  }, total);
  await page.keyboard.press("/");
  await page.keyboard.type("append_loss");
  await page.waitForFunction(
    (all) => Number(document.querySelector<HTMLElement>(".table")?.dataset.total) < all,
    total,
  );
  await page.waitForSelector(".rows .row >> text=append_loss >> nth=0");
});

test("shows causes and the peak under other settings", async () => {
  const { page } = watched;
  await show(page, watched.address, "view=causes&d=2");
  expect(await page.textContent(".report")).toMatch(/were unused/);
  expect(await page.locator(".alternative").count()).toBeGreaterThan(1);
});

test("compares documents and names the largest", async () => {
  const { page } = watched;
  await show(page, watched.address, "view=compare&d=0&with=1");
  await page.waitForSelector("canvas");
  expect(await page.textContent(".report")).toMatch(/The largest is .*above the mean/);
  await page.waitForSelector("text=Live bytes at the peaks");
});

test("opens and closes the help page", async () => {
  const { page } = watched;
  await show(page, watched.address, "view=timeline");
  await page.keyboard.press("?");
  await page.waitForSelector("dialog[open] >> text=zoom in");
  await takePicture(page, "help");
  await page.keyboard.press("Escape");
  await page.waitForSelector("dialog", { state: "detached" });
  await page.keyboard.press("?");
  await page.click("dialog >> [aria-label=Close]");
  await page.waitForSelector("dialog", { state: "detached" });
});

test("redraws after the GPU context was lost", async () => {
  const { page } = watched;
  await page.goto(`${watched.address}?draw=webgl2#view=timeline&d=2&at=30000`);
  await page.waitForSelector('[data-painter="webgl2"][data-settled="true"]');
  const before = await meanColors(page, kPlotPart);
  await page.evaluate(async () => {
    const canvas = document.querySelector<HTMLCanvasElement>(".timeline .below")!;
    const gl = canvas.getContext("webgl2")!.getExtension("WEBGL_lose_context")!;
    const next = (name: string) =>
      new Promise((resume) => canvas.addEventListener(name, resume, { once: true }));
    const lost = next("webglcontextlost");
    gl.loseContext();
    await lost;
    await new Promise((resume) => setTimeout(resume));
    const restored = next("webglcontextrestored");
    gl.restoreContext();
    await restored;
    await new Promise(requestAnimationFrame);
    await new Promise(requestAnimationFrame);
  });
  const after = await meanColors(page, kPlotPart);
  after.forEach((channel, i) => expect(Math.abs(channel - before[i])).toBeLessThan(2));
});
