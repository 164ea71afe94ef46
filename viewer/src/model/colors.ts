// SPDX-License-Identifier: Apache-2.0
//
// A palette for all kinds of colour vision: the seven colours of Okabe and Ito ("Color Universal
// Design", 2008; black is reserved for text), each also in a lighter and a darker tier. Colours
// of similar hue, such as blue and sky blue, differ in lightness. Colour is never the only cue:
// patterns, labels or positions carry the same information.
import { kNoCategory, kNone } from "../api/scene.ts";

const kOkabeIto = [
  [0x00, 0x72, 0xb2], // blue
  [0xe6, 0x9f, 0x00], // orange
  [0x00, 0x9e, 0x73], // bluish green
  [0xcc, 0x79, 0xa7], // reddish purple
  [0x56, 0xb4, 0xe9], // sky blue
  [0xd5, 0x5e, 0x00], // vermilion
  [0xf0, 0xe4, 0x42], // yellow
] as const;

export type Rgb = readonly [number, number, number];
export type Theme = "light" | "dark";

const kWhite: Rgb = [255, 255, 255];
const kBlack: Rgb = [0, 0, 0];

export const kPalette: readonly Rgb[] = [
  ...kOkabeIto,
  ...kOkabeIto.map((color) => mix(color, kWhite, 0.45)),
  ...kOkabeIto.map((color) => mix(color, kBlack, 0.35)),
];

// The colour of merged items: small allocations, and groups without a row of their own.
export const kNeutral: Record<Theme, Rgb> = { light: [190, 194, 200], dark: [92, 97, 106] };
const kBackgroundColor: Record<Theme, Rgb> = { light: [255, 255, 255], dark: [24, 26, 30] };

// The colours of growth and shrinkage. Vermilion and blue are distinguishable with any colour
// vision.
export const kGrownColor: Rgb = kOkabeIto[5];
export const kShrunkColor: Rgb = kOkabeIto[0];

// Assigns colours by rank, so that the largest items get different colours. Items without a rank
// get a colour derived from their id, which is the same in all views.
export class Coloring {
  private readonly rank = new Map<number, number>();

  constructor(ranked: Iterable<number>) {
    for (const id of ranked) if (!this.rank.has(id)) this.rank.set(id, this.rank.size);
  }

  of(id: number, theme: Theme): Rgb {
    if (id === kNone) return kNeutral[theme];
    const rank = this.rank.get(id) ?? hashColor(id);
    return kPalette[rank % kPalette.length];
  }
}

// Assigns each category the colour of its number, and the neutral colour to "unknown".
export class CategoryColoring extends Coloring {
  private readonly unknown: number;

  constructor(names: readonly string[]) {
    super(names.keys());
    this.unknown = names.indexOf("unknown");
  }

  override of(id: number, theme: Theme): Rgb {
    return super.of(id === this.unknown || id === kNoCategory ? kNone : id, theme);
  }
}

// Returns the colour of items that are not selected.
export function fade(color: Rgb, theme: Theme): Rgb {
  const grey = 0.3 * color[0] + 0.59 * color[1] + 0.11 * color[2];
  return mix(mix(color, [grey, grey, grey], 0.6), kBackgroundColor[theme], 0.72);
}

// Alternates the lightness of adjacent allocations of one stack.
export function shade(color: Rgb, number: number): Rgb {
  return number % 2 === 0 ? color : mix(color, kWhite, 0.14);
}

export function mix(a: Rgb, b: Rgb, share: number): Rgb {
  return [0, 1, 2].map((i) => Math.round(a[i] + (b[i] - a[i]) * share)) as unknown as Rgb;
}

// Returns the RGBA bytes as WebGL reads them. Assumes a little-endian machine.
export function packColor(color: Rgb, alpha = 255): number {
  return (color[0] | (color[1] << 8) | (color[2] << 16) | (alpha << 24)) >>> 0;
}

export function cssColor(color: Rgb): string {
  return `rgb(${color[0]} ${color[1]} ${color[2]})`;
}

// Returns near-black or white, approximately the one with the higher contrast.
export function textColorOn(color: Rgb): string {
  const luminance =
    0.2126 * linear(color[0]) + 0.7152 * linear(color[1]) + 0.0722 * linear(color[2]);
  return luminance > 0.2 ? "#10131a" : "#ffffff";
}

function linear(channel: number): number {
  return (channel / 255) ** 2.2;
}

// Returns a hash of an id. Adjacent ids have different hashes.
function hashColor(id: number): number {
  return Math.imul(id + 1, 0x9e3779b1) >>> 8;
}
