// SPDX-License-Identifier: Apache-2.0
import { expect, test } from "vitest";
import { BlockState, SegmentKind } from "../../src/api/scene.ts";
import {
  fittingBytesPerPixel,
  kLineHeight,
  layOutMap,
  quadAt,
} from "../../src/model/map_layout.ts";
import { segmentSummary, segmentUse } from "../../src/model/segment_use.ts";
import { free, live, mapOf } from "../sample_map.ts";

test("wraps segments so that area is proportional to bytes", () => {
  const map = mapOf([{ pool: 0, blocks: [live(250), free(100)] }]);
  const layout = layOutMap(map, { width: 100, bytesPerPixel: 1 });
  const widths = [0, 0];
  for (let i = 0; i < layout.quads.count; ++i) {
    widths[layout.quads.row[i]] += layout.quads.box[4 * i + 1] - layout.quads.box[4 * i];
    expect(layout.quads.box[4 * i + 1]).toBeLessThanOrEqual(100.001);
  }
  expect(widths[0]).toBeCloseTo(250);
  expect(widths[1]).toBeCloseTo(100);
  expect(layout.pieces.length).toBe(4);
});

test("starts each pool on a new line with a heading", () => {
  const map = mapOf([
    { pool: 1, blocks: [live(10)] },
    { pool: 0, blocks: [live(20)] },
    { pool: 1, blocks: [live(30), { bytes: 50, state: BlockState.unmapped }] },
  ]);
  const layout = layOutMap(map, { width: 100, bytesPerPixel: 1 });
  // Only mapped memory counts, not unmapped addresses.
  expect(layout.headings.map((heading) => [heading.pool, heading.bytes, heading.segments])).toEqual(
    [
      [0, 20, 1],
      [1, 40, 2],
    ],
  );
  expect(layout.headings[1].y).toBeGreaterThanOrEqual(layout.headings[0].y + kLineHeight);
});

test("hit test finds blocks, and nothing in gaps", () => {
  const map = mapOf([{ pool: 0, blocks: [live(40), free(60)] }]);
  const layout = layOutMap(map, { width: 100, bytesPerPixel: 1 });
  const y = layout.quads.box[2] + 1;
  expect(layout.quads.row[quadAt(layout, 39, y)]).toBe(0);
  expect(layout.quads.row[quadAt(layout, 41, y)]).toBe(1);
  expect(quadAt(layout, 41, y - 5)).toBe(-1);
});

test("scales any number of segments to fit the page", () => {
  const segments = Array.from({ length: 300 }, (_, i) => ({
    pool: 0,
    blocks: [live(1 + (i % 7) * 2e6)],
  }));
  const map = mapOf(segments);
  const bytesPerPixel = fittingBytesPerPixel(map, 800, 600);
  expect(layOutMap(map, { width: 800, bytesPerPixel }).height).toBeLessThanOrEqual(650);
});

test("reports one small block that pins a segment", () => {
  const map = mapOf([{ pool: 0, blocks: [free(20 * 2 ** 20 - 512), live(512)] }]);
  const sentence = segmentSummary(segmentUse(map, 0), 0, "It is 7 entries old.");
  expect(sentence).toBe(
    "1 live block of 512 B (0.0 % of 20.00 MiB) pins this segment: " +
      "the 20.00 MiB around it cannot be released. It is 7 entries old.",
  );
});

test("reports empty and pending segments", () => {
  const map = mapOf([
    { pool: 0, blocks: [free(2 ** 21)] },
    { pool: 0, blocks: [{ bytes: 2 ** 21, state: BlockState.pending }] },
    { pool: 0, blocks: [{ bytes: 2 ** 21, state: BlockState.unmapped }] },
  ]);
  expect(segmentSummary(segmentUse(map, 0), 0, "")).toMatch(/No live blocks.*could be released/);
  expect(segmentSummary(segmentUse(map, 1), 0, "")).toMatch(/must wait for another stream/);
  expect(segmentSummary(segmentUse(map, 2), 1, "")).toMatch(/no memory mapped/);
});

test("describes views of the paged engine", () => {
  const map = mapOf([
    { pool: 0, blocks: [live(512), free(512)] },
    { pool: 0, blocks: [live(1024)] },
  ]);
  map.segment_kind.set([SegmentKind.view, SegmentKind.plain]);
  expect(segmentSummary(segmentUse(map, 0), SegmentKind.view, "")).toMatch(/pins this view: only/);
  expect(segmentSummary(segmentUse(map, 0), SegmentKind.expandable, "")).toMatch(
    /this expandable segment/,
  );
  const [heading] = layOutMap(map, { width: 100, bytesPerPixel: 100 }).headings;
  expect([heading.views, heading.segments]).toEqual([1, 1]);
});

test("counts live blocks, largest first", () => {
  const map = mapOf([{ pool: 0, blocks: [live(10), free(1000), live(500)] }]);
  const use = segmentUse(map, 0);
  expect(use.liveBlocks).toEqual([2, 0]);
  expect(segmentSummary(use, 0, "")).toMatch(/^2 live blocks of 510 B .* pin this segment/);
});
