// SPDX-License-Identifier: Apache-2.0
//
// Tests the analyses of training programs: categories, failures, leaks, and source lines.
import { writeFileSync, mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import path from "node:path";
import { expect, test } from "vitest";
import { drawn, kPlotPart, meanColors } from "./plot.ts";
import { openPage, recordingFile, serve, show, startBrowser, takePicture } from "./served.ts";
import { watchPages } from "./watched_pages.ts";

const watched = watchPages(
  ["transformer", "out_of_memory", "leak_growing", "state_only", "annotated"].map(recordingFile),
);

const kCategories = ".categories button";

test("colours by category, and shows only one of them", async () => {
  const { page } = watched;
  await show(page, watched.address, "view=timeline&d=0");
  await page.waitForSelector(kCategories);
  const byStack = await meanColors(page, kPlotPart);
  await page.keyboard.press("c");
  await page.waitForSelector('[aria-label="Colour"] [aria-pressed="true"] >> text="category"');
  await drawn(page);
  const byCategory = await meanColors(page, kPlotPart);
  expect(difference(byCategory, byStack)).toBeGreaterThan(20);
  await takePicture(page, "timeline_by_category");

  await page.click('[data-category="activations"]');
  await page.waitForSelector('[data-category="activations"][aria-pressed="true"]');
  await drawn(page);
  expect(difference(await meanColors(page, kPlotPart), byCategory)).toBeGreaterThan(20);
  await takePicture(page, "timeline_one_category");
  const activations = (await page.textContent('[data-category="activations"] .number'))!;

  // All views show that category only.
  await page.keyboard.press("3");
  await page.waitForSelector(`text="${activations} live at entry 1,478"`);
  await page.keyboard.press("4");
  await page.waitForSelector(".rows .row[data-id]");
  await page.waitForFunction(() =>
    [...document.querySelectorAll(".rows .row[data-id] > :nth-child(7)")].every(
      (cell) => cell.textContent === "activations",
    ),
  );
  const total = Number(await page.getAttribute(".table", "data-total"));
  await page.keyboard.press("Escape");
  await page.waitForFunction(
    (few) => Number(document.querySelector<HTMLElement>(".table")?.dataset.total) > few,
    total,
  );
  await page.keyboard.press("2");
  await page.waitForSelector('.map[data-settled="true"]');
  await takePicture(page, "map_by_category");
});

test("the categories at the peak add up to the requested bytes", async () => {
  const { page } = watched;
  await show(page, watched.address, "view=timeline&d=0");
  await page.waitForSelector(kCategories);
  const bytes = await page.$$eval(`${kCategories} .number`, (all) =>
    all.map((each) => {
      const [amount, unit] = each.textContent!.split(" ");
      return Number(amount) * { B: 2 ** -20, KiB: 2 ** -10, MiB: 1 }[unit]!;
    }),
  );
  const requested = parseFloat((await page.textContent(".moment .figures dd"))!);
  expect(bytes.reduce((sum, each) => sum + each, 0)).toBeCloseTo(requested, 1);
});

test("explains the failure, with what to do on top", async () => {
  const { page } = watched;
  await show(page, watched.address, "view=oom&d=1");
  const sections = await page.$$eval(".report section", (all) =>
    all.map((each) => each.querySelector("h2")!.textContent),
  );
  expect(sections.length).toBeGreaterThan(2);
  expect(sections[1]).toBe("What to do");
  expect(await page.textContent("[data-failure]")).toContain("7.25 MiB was requested");
  await takePicture(page, "oom_recording");
  await page.click("[data-failure] >> text=Show in the timeline");
  await page.waitForSelector('.moment[data-moment="3932"] .badge.oom');
});

test("runs without a failure say so", async () => {
  const { page } = watched;
  await show(page, watched.address, "view=oom&d=0");
  await page.waitForSelector("text=This run did not run out of memory");
});

test("lists leaks per iteration, with what to do on top", async () => {
  const { page } = watched;
  await show(page, watched.address, "view=leaks&d=2");
  expect(await page.textContent(".report section:first-child h2")).toBe("What to do");
  expect(await page.textContent(".report")).toMatch(/per iteration are not freed, in 1 stack of/);
  await takePicture(page, "leaks_recording");
  await page.click("[data-leaks] .link >> nth=0");
  await page.waitForSelector("[data-selected^='stack:'] .frames");
  await show(page, watched.address, "view=leaks&d=0");
  await page.waitForSelector("text=/^No leak found in/");
});

test.each(["oom", "leaks"])("%s of a file without a trace says what is missing", async (view) => {
  const { page } = watched;
  await show(page, watched.address, `view=${view}&d=3`);
  expect(await page.textContent(".empty")).toMatch(/history/);
});

test("shows live bytes by source line at the moment", async () => {
  const { page } = watched;
  await show(page, watched.address, "view=source&d=0");
  const heaviest = '.row[data-line="36"]';
  await page.waitForSelector(`${heaviest} >> text=33.00 MiB`);
  await takePicture(page, "source_lines");
  await page.click(heaviest);
  await page.waitForSelector("[data-selected^='stack:'] .frames");
  await page.waitForSelector(`${heaviest}.related`);
  await page.focus(".overview");
  await page.keyboard.press("Home");
  await page.waitForFunction(
    () => !document.querySelector('.row[data-line="36"] > :first-child')!.textContent,
  );
});

test("shows the text of the source beside the bytes", async () => {
  const folder = mkdtempSync(path.join(tmpdir(), "ashlar-source-"));
  writeFileSync(path.join(folder, "train.py"), sourceText(620));
  const served = await serve([recordingFile("transformer"), "--source", folder]);
  const browser = await startBrowser();
  const { page, errors } = await openPage(browser);
  await show(page, served.address, "view=source");
  await page.waitForSelector('.row[data-line="36"] >> text="statement_36()"');
  await page.waitForSelector('.row[data-line="36"] >> text=33.00 MiB');
  expect(await page.getAttribute(".source", "data-lines")).toBe("620");
  await takePicture(page, "source_text");
  expect(errors).toEqual([]);
  await browser.close();
  served.stop();
  rmSync(folder, { recursive: true });
});

test("shows iterations, phases and annotated ranges as spans", async () => {
  const { page } = watched;
  await show(page, watched.address, "view=timeline&d=4");
  await page.waitForSelector('.regions[data-lanes="iterations phases ranges  "]');
  await takePicture(page, "regions");
  const lane = async (number: number, right: number) => {
    const box = (await page.locator(".regions").boundingBox())!;
    await page.mouse.move(box.x + right * box.width, box.y + 18 * number + 8);
    return page.textContent(".regions .hover");
  };
  expect(await lane(0, 0.5)).toMatch(/^iteration \d+.*: peak \d+\.\d\d MiB/);
  expect(await lane(2, 0.5)).toMatch(/^step \d+/);
  const range = /(\d[\d,]*) entries from entry ([\d,]+)/.exec((await lane(0, 0.5))!)!;
  const [length, first] = range.slice(1).map((text) => Number(text.replace(",", "")));
  await page.mouse.down();
  await page.mouse.up();
  await page.waitForFunction(
    (words) => location.hash.includes(words),
    `span=${first}-${first + length}`,
  );
  await drawn(page);
  await takePicture(page, "regions_zoomed");
});

test("search in the flame graph highlights frames and sums up their bytes", async () => {
  const { page } = watched;
  await show(page, watched.address, "view=flame&d=0");
  await page.keyboard.press("/");
  await page.keyboard.type("LANGUAGE_LOSS");
  await page.waitForSelector("[data-found] >> text=/found in \\d+.*MiB .*%/");
  const bright = page.locator(".flame-box:not(.faded)");
  await page.waitForSelector(".flame-box.faded");
  for (const text of await bright.allTextContents()) {
    if (text) expect(text).toContain("language_loss");
  }
  await takePicture(page, "flame_search");
  await page.waitForFunction(() => location.hash.includes("search=LANGUAGE_LOSS"));
});

// Returns a source text in which the functions of the recorded program begin at their recorded
// lines. The tool does not show a text in which they begin at other lines.
function sourceText(count: number): string {
  const functions: Record<number, string> = {
    30: "forward",
    80: "make_tokens",
    90: "language_loss",
    130: "train_language_model",
    150: "transformer",
    590: "main",
  };
  const last = 600; // last line of the last function
  const lines = Array.from({ length: count }, (_, i) => {
    const name = functions[i + 1];
    return name ? `def ${name}():` : `${i < last ? "    " : ""}statement_${i + 1}()`;
  });
  return lines.join("\n");
}

function difference(a: number[], b: number[]): number {
  return Math.max(...a.map((channel, i) => Math.abs(channel - b[i])));
}
