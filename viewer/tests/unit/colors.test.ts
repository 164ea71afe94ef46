// SPDX-License-Identifier: Apache-2.0
import { expect, test } from "vitest";
import { kNone } from "../../src/api/scene.ts";
import {
  Coloring,
  fade,
  textColorOn,
  kNeutral,
  kPalette,
  packColor,
} from "../../src/model/colors.ts";

test("gives the largest items distinct colours", () => {
  const coloring = new Coloring([40, 3, 17, 99, 5, 8, 1]);
  const colors = [40, 3, 17, 99, 5, 8, 1].map((id) => coloring.of(id, "light"));
  expect(colors).toEqual(kPalette.slice(0, 7));
});

test("derives stable, distinct colours for adjacent ids without a rank", () => {
  const coloring = new Coloring([]);
  expect(coloring.of(12, "light")).toBe(coloring.of(12, "dark"));
  const row = [...Array(50).keys()].map((id) => coloring.of(id, "light"));
  expect(row.some((color, i) => i > 0 && color === row[i - 1])).toBe(false);
});

test("uses the neutral colour for ids without an owner in both themes", () => {
  expect(new Coloring([kNone]).of(kNone, "dark")).toBe(kNeutral.dark);
});

test("palette colours are distinguishable with any colour vision", () => {
  // Brettel's and Viénot's matrices with the usual rounding, applied to linear RGB.
  const kinds = {
    protan: [0.1124, 0.8876, 0, 0.1124, 0.8876, 0, 0.004, -0.004, 1],
    deutan: [0.2929, 0.7071, 0, 0.2929, 0.7071, 0, -0.0223, 0.0223, 1],
  };
  for (const matrix of Object.values(kinds)) {
    const seen = kPalette.slice(0, 7).map((color) => {
      const light = color.map((channel) => (channel / 255) ** 2.2);
      return [0, 1, 2].map((i) => {
        const value = [0, 1, 2].reduce((sum, j) => sum + matrix[3 * i + j] * light[j], 0);
        return 255 * Math.max(0, value) ** (1 / 2.2);
      });
    });
    seen.forEach((a, i) =>
      seen.slice(i + 1).forEach((b) => {
        expect(Math.hypot(a[0] - b[0], a[1] - b[1], a[2] - b[2])).toBeGreaterThan(20);
      }),
    );
  }
});

test("fades towards the background", () => {
  const light = fade(kPalette[0], "light");
  expect(light.every((channel, i) => channel >= kPalette[0][i] || channel > 180)).toBe(true);
  expect(Math.max(...fade(kPalette[0], "dark"))).toBeLessThan(120);
});

test("packs colours in the painters' byte order", () => {
  expect(packColor([1, 2, 3], 255)).toBe(0xff030201);
});

test("uses dark text on light colours and vice versa", () => {
  expect(textColorOn([240, 228, 66])).not.toBe(textColorOn([0, 60, 100]));
});
