// SPDX-License-Identifier: Apache-2.0
//
// Tests changes while a view is shown: document, selection, sort order of a table, focus.
import { expect, test } from "vitest";
import { drawn } from "./plot.ts";
import { show, takePicture, traceFiles } from "./served.ts";
import { watchPages } from "./watched_pages.ts";

const watched = watchPages(traceFiles(["oom.1", "leaky", "moe_streams.1"]));

test("switches all views to another document", async () => {
  const { page } = watched;
  // The vertical zoom of one document does not apply to the next document.
  await show(page, watched.address, "view=timeline&d=0");
  for (let i = 0; i < 8; ++i) await page.keyboard.press("Shift+ArrowUp");
  await page.waitForSelector("button:enabled >> text=Fit");
  await page.keyboard.press("n");
  await page.waitForSelector("button:disabled >> text=Fit");

  // The zoomed frame does not exist in the next document, whose frames can be zoomed as well.
  await show(page, watched.address, "view=flame&d=0");
  await page.click(".flame-box >> nth=1");
  await page.keyboard.press("n");
  await page.waitForSelector(".flame-box >> text=/append_loss/");
  await page.click(".flame-box >> text=/append_loss/ >> nth=0");
  await page.waitForFunction(() =>
    document.querySelector(".flame-box")!.textContent!.startsWith("append_loss"),
  );
  await page.click("text=All frames");
  await page.waitForFunction(() =>
    document.querySelector(".flame-box")!.textContent!.startsWith("all "),
  );

  // The view shows the document's own causes, or that they are loading.
  await show(page, watched.address, "view=causes&d=0");
  const before = await page.textContent(".report section");
  await page.route("**/d/1/causes.json", (route) =>
    route.fulfill({ status: 202, json: { loading: "replaying" } }),
  );
  await page.keyboard.press("n");
  await page.waitForSelector("[data-loading] >> text=replaying");
  await page.unroute("**/d/1/causes.json");
  await page.waitForSelector(".report section");
  expect(await page.textContent(".report section")).not.toBe(before);

  // A document is not compared with itself.
  await show(page, watched.address, "view=compare&d=0&with=1");
  await page.selectOption("select.document", "1");
  await page.waitForSelector("text=Live bytes at the peaks");
  expect(await page.isChecked('[aria-label^="compare with oom"]')).toBe(true);
});

test("ignores URL parts that do not exist", async () => {
  const { page } = watched;
  await show(page, watched.address, "view=timeline&d=2");
  await page.evaluate(() => (location.hash = "#view=timeline&d=9"));
  await page.waitForSelector('.timeline[data-settled="true"]');
  await page.waitForFunction(() => location.hash === "#view=timeline");
  await page.evaluate(() => (location.hash = "#view=timeline&span=900000-900100"));
  await drawn(page); // handles the change of the URL, then requests what it shows
});

test("supports keyboard navigation with any focus", async () => {
  const { page } = watched;
  await show(page, watched.address, "view=table");
  await page.check("text=only live at entry");
  await page.keyboard.press("1");
  await page.waitForSelector('.timeline[data-settled="true"]');
  await page.focus(".overview");
  const at = Number(await page.getAttribute(".moment", "data-moment"));
  await page.keyboard.press("ArrowLeft");
  await page.waitForSelector(`.moment[data-moment="${at - 1}"]`);
  await page.keyboard.press("Home");
  await page.waitForSelector('.moment[data-moment="0"]');
  await page.keyboard.press("p");

  await page.keyboard.press("4");
  await page.focus(".grid");
  await page.waitForSelector(".row[data-id]");
  await page.keyboard.press("ArrowDown");
  await page.keyboard.press("ArrowDown");
  const id = await page.getAttribute(".row[data-active]", "data-id");
  await page.keyboard.press("Enter");
  await page.waitForSelector(`[data-selected="allocation:${id}"]`);
  await page.focus("header input[type=file]");
  expect(await page.evaluate(() => document.activeElement?.getAttribute("type"))).toBe("file");
});

test("highlights related items of a selected allocation in all views", async () => {
  const { page } = watched;
  await show(page, watched.address, "view=table&d=1");
  await page.click(".row[data-id] >> nth=0");
  await page.waitForSelector(".holders button.related");
  await page.click("text=stacks >> nth=0");
  await page.waitForSelector(".stacks .row.related");
  await page.keyboard.press("3");
  await page.waitForSelector(".flame-box.faded");
  await page.keyboard.press("9");
  await page.waitForSelector(".u-legend"); // the curves move the rows down
  await page.click("tbody .link >> nth=1");
  await page.waitForFunction(() => location.hash.includes("sel=stack:"));
  await page.waitForSelector("tr.related");
});

test("ignores late rows of an earlier sort order", async () => {
  const { page } = watched;
  await show(page, watched.address, "view=table&d=2");
  // Delays a page of the old sort order by a second.
  await page.route(/allocations\?sort=bytes.*from=[^0]/, async (route) => {
    const response = await route.fetch();
    await new Promise((resume) => setTimeout(resume, 1000));
    await route.fulfill({ response });
  });
  const late = page.waitForResponse(/allocations\?sort=bytes.*from=[^0]/);
  await page.evaluate(() => document.querySelector(".rows")!.scrollTo({ top: 28 * 2500 }));
  await page.waitForRequest(/allocations\?sort=bytes.*from=[^0]/);
  await page.click("text=allocated at");
  await page.click("text=allocated at");
  await page.waitForSelector('[aria-sort="ascending"] >> text=allocated at');
  const places = () =>
    page.$$eval(".row[data-id] > :nth-child(2)", (cells) => cells.map((cell) => cell.textContent));
  await page.waitForFunction(
    () => (document.querySelector(".row[data-id] > :nth-child(2)")?.textContent ?? "").length < 3,
  );
  const rows = await places();
  await late;
  await page.waitForTimeout(100);
  expect(await places()).toEqual(rows);
});

test("moves the details below in a narrow window", async () => {
  const { page } = watched;
  await page.setViewportSize({ width: 700, height: 800 });
  await show(page, watched.address, "view=timeline");
  const view = (await page.locator(".view").boundingBox())!;
  const aside = (await page.locator("aside").boundingBox())!;
  expect(aside.y).toBeGreaterThanOrEqual(view.y + view.height - 2);
  expect(view.height).toBeGreaterThan(300);
  await takePicture(page, "narrow");
});
