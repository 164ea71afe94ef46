// SPDX-License-Identifier: Apache-2.0
//
// Positions in a plot, and the colours at them.
import type { Page } from "playwright-core";
import { kMargin } from "../../src/draw/timeline_options.ts";

export interface Box {
  x: number;
  y: number;
  width: number;
  height: number;
}

export interface Point {
  x: number;
  y: number;
}

export const kPlotPart: Box = { x: 150, y: 180, width: 700, height: 520 };

// Clicks at a fraction of an element's width and height.
export async function clickAt(page: Page, selector: string, right: number, down: number) {
  const box = (await page.locator(selector).boundingBox())!;
  await page.mouse.click(box.x + right * box.width, box.y + down * box.height);
}

// Returns the mean of each colour channel in each cell of a 4 by 4 grid over a part of the page.
export async function meanColors(page: Page, clip: Box): Promise<number[]> {
  const picture = await page.screenshot({ clip });
  return page.evaluate(async (text) => {
    const bytes = Uint8Array.from(atob(text), (letter) => letter.charCodeAt(0));
    const image = await createImageBitmap(new Blob([bytes], { type: "image/png" }));
    const canvas = new OffscreenCanvas(4, 4);
    const pen = canvas.getContext("2d")!;
    pen.imageSmoothingQuality = "high";
    pen.drawImage(image, 0, 0, 4, 4);
    return [...pen.getImageData(0, 0, 4, 4).data];
  }, picture.toString("base64"));
}

// Returns the colour around a point of the page.
export async function colorAt(page: Page, at: Point): Promise<string> {
  const clip = { x: Math.round(at.x) - 2, y: Math.round(at.y) - 2, width: 4, height: 4 };
  const [red, green, blue] = await meanColors(page, clip);
  return `rgb(${red}, ${green}, ${blue})`;
}

// The ranges of the timeline's axes when the whole run is shown.
export interface AxisRanges {
  entries: number;
  reservedPeak: number;
}

// Returns the position of an entry and a number of bytes in the timeline.
export async function placeOf(
  page: Page,
  { entries, reservedPeak }: AxisRanges,
  { entry, bytes }: { entry: number; bytes: number },
): Promise<Point> {
  const box = (await page.locator(".timeline").boundingBox())!;
  const width = box.width - kMargin.left - kMargin.right;
  const height = box.height - kMargin.top - kMargin.bottom;
  return {
    x: box.x + kMargin.left + ((entry + 0.5) / entries) * width,
    y: box.y + kMargin.top + height * (1 - bytes / (1.06 * reservedPeak)),
  };
}

// Returns the position of the mark of an entry, above the plot.
export async function markPlaceOf(page: Page, run: AxisRanges, entry: number): Promise<Point> {
  const { x } = await placeOf(page, run, { entry, bytes: 0 });
  const box = (await page.locator(".timeline").boundingBox())!;
  return { x, y: box.y + kMargin.top - 3 };
}

// Returns whether lines or marks of this colour are drawn within `reach` pixels of a point. They
// are on a separate transparent canvas, from which their colour can be read.
export function isDrawnNear(page: Page, at: Point, color: string, reach = 2): Promise<boolean> {
  return page.evaluate(
    ({ at, color, reach }) => {
      const canvas = document.querySelector<HTMLCanvasElement>(".timeline .above")!;
      const box = canvas.getBoundingClientRect();
      const x = Math.round(at.x - box.left) - reach;
      const y = Math.round(at.y - box.top) - reach;
      const { data } = canvas.getContext("2d")!.getImageData(x, y, 2 * reach + 1, 2 * reach + 1);
      const wanted = color.match(/\d+/g)!.map(Number);
      for (let i = 0; i < data.length; i += 4) {
        const isClose = wanted.every((channel, j) => Math.abs(channel - data[i + j]) < 12);
        if (isClose && data[i + 3] > 120) return true;
      }
      return false;
    },
    { at, color, reach },
  );
}

// Waits until the timeline has drawn the effect of a key or click.
export async function drawn(page: Page): Promise<void> {
  await page.evaluate(async () => {
    await new Promise(requestAnimationFrame);
    await new Promise(requestAnimationFrame);
  });
  await page.waitForSelector('.timeline[data-settled="true"]');
}
