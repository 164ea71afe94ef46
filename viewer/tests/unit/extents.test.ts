// SPDX-License-Identifier: Apache-2.0
import { expect, test } from "vitest";
import { BlockState, kNone } from "../../src/api/scene.ts";
import {
  extentSummary,
  extentUse,
  hasExtents,
  idleExtents,
  otherMappings,
  mappedRangeAt,
} from "../../src/model/extents.ts";
import { boxAt, kLineHeight, kLineGap, layOutMap, offsetAt } from "../../src/model/map_layout.ts";
import { type Extent, free, live, mapOf } from "../sample_map.ts";

const kOther = 2n ** 30n; // address of the second segment

// Two extents of 100 bytes are mapped in the first view. The second extent has its home in the
// second view, whose end belongs to a third extent. A fourth extent is idle but still mapped.
const kExtents: Extent[] = [
  { bytes: 100, home: 0n, mappings: [0n] },
  { bytes: 100, home: kOther, mappings: [100n, kOther] },
  { bytes: 100, home: kOther + 100n, mappings: [kOther + 100n, 7n * kOther] },
  { bytes: 50, mappings: [5n * kOther] },
];
const kMap = mapOf(
  [
    { pool: 0, blocks: [live(30), free(70), { bytes: 100, state: BlockState.unmapped }] },
    { pool: 0, blocks: [live(120), live(40), free(40)] },
  ],
  kExtents,
);
const sentence = (extent: number) => extentSummary(kMap, extent, extentUse(kMap, extent));

test("finds the extent at an offset of a view", () => {
  expect(mappedRangeAt(kMap, 0, 0)).toBe(0);
  expect(mappedRangeAt(kMap, 0, 99)).toBe(0);
  expect(mappedRangeAt(kMap, 0, 100)).toBe(1);
  expect([...kMap.range_is_home]).toEqual([1, 0, 1, 1]);
  expect(mappedRangeAt(kMap, 1, 199)).toBe(3);
  expect(mappedRangeAt(kMap, 1, 200)).toBe(kNone);
});

test("a map without extents has none anywhere", () => {
  const map = mapOf([{ pool: 0, blocks: [live(10)] }]);
  expect(hasExtents(map)).toBe(false);
  expect(mappedRangeAt(map, 0, 5)).toBe(kNone);
  const layout = layOutMap(map, { width: 100, bytesPerPixel: 1 });
  expect([layout.mappedRanges, layout.idle, layout.headings.length]).toEqual([[], [], 1]);
});

test("other mappings exclude the home address", () => {
  expect([...otherMappings(kMap, 0)]).toEqual([]);
  expect([...otherMappings(kMap, 1)]).toEqual([100n]);
  expect([...otherMappings(kMap, 3)]).toEqual([5n * kOther]);
});

test("sums the blocks of an extent at its home", () => {
  expect(sentence(0)).toBe(
    "1 live block occupies 30 B of it: the 70 B around it can serve only this view.",
  );
  expect(sentence(1)).toBe("1 live block occupies 100 B of it: nothing of it is free.");
  expect(extentUse(kMap, 2).liveBlocks).toEqual([4, 3]); // with 40 and 20 bytes in the extent
  expect(sentence(2)).toMatch(/^2 live blocks occupy 60 B of it: the 40 B around them/);
  expect(sentence(3)).toMatch(/^It is idle/);
});

test("distinguishes free extents from pending ones", () => {
  const pending = { bytes: 60, state: BlockState.pending };
  const map = mapOf(
    [{ pool: 0, blocks: [free(100), pending, free(40)] }],
    [
      { bytes: 100, home: 0n, mappings: [0n] },
      { bytes: 100, home: 100n, mappings: [100n] },
    ],
  );
  expect(extentSummary(map, 0, extentUse(map, 0))).toMatch(/^No live blocks/);
  expect(extentSummary(map, 1, extentUse(map, 1))).toMatch(/1 block \(60 B of it\) must wait/);
});

test("lays out extents below their bytes and idle ones separately", () => {
  const page = { width: 150, bytesPerPixel: 1 };
  const layout = layOutMap(kMap, page);
  expect(idleExtents(kMap)).toEqual([3]);
  expect(layout.headings.map((heading) => heading.idle)).toEqual([0, 1]);
  expect(layout.idle.map((box) => [box.index, box.right - box.left])).toEqual([[3, 50]]);
  expect(boxAt(layout.idle, 10, layout.idle[0].y + 1)?.index).toBe(3);
  // The second mapped range continues on the next line.
  const parts = layout.mappedRanges.filter((box) => box.index === 1);
  expect(parts.map((box) => [box.left, box.right])).toEqual([
    [100, 150],
    [0, 50],
  ]);
  expect(parts[1].y - parts[0].y).toBe(kLineHeight + kLineGap);
  for (const box of layout.mappedRanges) {
    const segment = box.index < 2 ? 0 : 1;
    const offset = offsetAt(page, layout.origins[segment], box.left + 1, box.y + 1);
    expect(mappedRangeAt(kMap, segment, offset)).toBe(box.index);
  }
});
