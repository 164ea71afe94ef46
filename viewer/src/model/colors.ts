// SPDX-License-Identifier: Apache-2.0
//
// Colours that people with any kind of colour vision can tell apart: the seven of Okabe and Ito
// ("Color Universal Design", 2008; black is left to text), each also lighter and darker. Within a
// tier hues differ under every common colour blindness; between tiers lightness does. Nothing is
// told by colour alone: patterns, labels or positions say the same.
import { kNone } from "../ask/scene.ts";

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

// What belongs to nobody in particular: small allocations together, the groups that are not shown.
export const kNeutral: Record<Theme, Rgb> = { light: [190, 194, 200], dark: [92, 97, 106] };
const kPaper: Record<Theme, Rgb> = { light: [255, 255, 255], dark: [24, 26, 30] };

// Growth and shrinkage: vermilion and blue differ in hue and in warmth for everybody.
export const kGrew: Rgb = kOkabeIto[5];
export const kShrank: Rgb = kOkabeIto[0];

// Colours by rank: what holds the most gets the colours that differ most. Whatever has no rank gets
// one by its number, so that it keeps it from view to view.
export class Coloring {
  private readonly rank = new Map<number, number>();

  constructor(ranked: Iterable<number>) {
    for (const id of ranked) if (!this.rank.has(id)) this.rank.set(id, this.rank.size);
  }

  of(id: number, theme: Theme): Rgb {
    if (id === kNone) return kNeutral[theme];
    const rank = this.rank.get(id) ?? scatter(id);
    return kPalette[rank % kPalette.length];
  }
}

// What is not selected steps back, so that what is stands out.
export function fade(color: Rgb, theme: Theme): Rgb {
  const grey = 0.3 * color[0] + 0.59 * color[1] + 0.11 * color[2];
  return mix(mix(color, [grey, grey, grey], 0.6), kPaper[theme], 0.72);
}

// Neighbours of one stack, told apart by a little lightness.
export function shade(color: Rgb, number: number): Rgb {
  return number % 2 === 0 ? color : mix(color, kWhite, 0.14);
}

export function mix(a: Rgb, b: Rgb, share: number): Rgb {
  return [0, 1, 2].map((i) => Math.round(a[i] + (b[i] - a[i]) * share)) as unknown as Rgb;
}

// As WebGL reads four bytes from memory; all machines that run browsers are little-endian.
export function packColor(color: Rgb, alpha = 255): number {
  return (color[0] | (color[1] << 8) | (color[2] << 16) | (alpha << 24)) >>> 0;
}

export function cssColor(color: Rgb): string {
  return `rgb(${color[0]} ${color[1]} ${color[2]})`;
}

// Black or white, whichever is easier to read on the colour.
export function inkOn(color: Rgb): string {
  const luminance =
    0.2126 * linear(color[0]) + 0.7152 * linear(color[1]) + 0.0722 * linear(color[2]);
  return luminance > 0.2 ? "#10131a" : "#ffffff";
}

function linear(channel: number): number {
  return (channel / 255) ** 2.2;
}

// Neighbouring numbers get different colours, and the same number always the same.
function scatter(id: number): number {
  return Math.imul(id + 1, 0x9e3779b1) >>> 8;
}
