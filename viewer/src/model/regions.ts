// SPDX-License-Identifier: Apache-2.0
//
// Regions of a run, which are drawn as spans above the timeline: iterations, their phases, and
// annotated ranges.
import type { DocumentScene, PhaseName, Training } from "../api/scene.ts";
import { formatBytes, formatCount } from "./format.ts";

export interface Region {
  from: number; // first entry
  to: number; // one past the last entry
  name: string;
  label: string; // short name, drawn in the span
  phase: PhaseName | null; // determines the colour
}

// Regions that do not overlap, in order.
export interface Lane {
  title: string;
  regions: Region[];
}

const kMostNested = 3; // lanes of annotated ranges

// Returns the lanes from top to bottom; lanes without regions are omitted.
export function lanesOf(document: DocumentScene, training: Training | null): Lane[] {
  const lanes: Lane[] = [
    { title: "iterations", regions: training ? iterationsOf(training) : [] },
    { title: "phases", regions: training ? phasesOf(training) : [] },
    ...rangesOf(document).nested.map((regions, depth) => ({
      title: depth === 0 ? "ranges" : "",
      regions,
    })),
  ];
  return lanes.filter((lane) => lane.regions.length > 0);
}

function iterationsOf({ iterations }: Training): Region[] {
  return iterations.all.map((each, i) => ({
    from: each.first_entry,
    to: each.end_entry,
    name:
      `iteration ${formatCount(i)}${each.complete ? "" : ", not recorded completely"}: ` +
      `peak ${formatBytes(each.peak_requested_bytes)}` +
      (iterations.highest?.index === i ? ", the highest" : ""),
    label: String(i),
    phase: null,
  }));
}

// Omits "other", which means that no phase was found.
function phasesOf({ phases }: Training): Region[] {
  return phases
    .filter((each) => each.phase !== "other")
    .map((each) => ({
      from: each.first_entry,
      to: each.end_entry,
      name: each.phase,
      label: each.phase,
      phase: each.phase,
    }));
}

const kStartSuffix = " START";
const kEndSuffix = " END";

export interface Ranges {
  nested: Region[][]; // by depth, outermost first
  single: DocumentScene["annotations"]; // annotations that do not begin or end a range
}

// Pairs the annotations that begin and end a range: "forward START" and "forward END". Ranges that
// are nested too deeply are omitted.
export function rangesOf({ annotations }: Pick<DocumentScene, "annotations">): Ranges {
  const nested: Region[][] = [];
  const paired = new Set<(typeof annotations)[0]>();
  const open: { name: string; start: (typeof annotations)[0] }[] = [];
  for (const each of annotations) {
    if (each.text.endsWith(kStartSuffix)) {
      open.push({ name: each.text.slice(0, -kStartSuffix.length), start: each });
    } else if (each.text.endsWith(kEndSuffix)) {
      const name = each.text.slice(0, -kEndSuffix.length);
      const depth = open.findLastIndex((range) => range.name === name);
      if (depth < 0) continue;
      const { start } = open[depth];
      open.splice(depth);
      paired.add(start).add(each);
      if (depth >= kMostNested) continue;
      // The next range may begin at the entry of this end.
      const to = Math.max(each.entry, start.entry + 1);
      const region = { from: start.entry, to, name, label: name, phase: null };
      (nested[depth] ??= []).push(region);
    }
  }
  return {
    nested: Array.from(nested, (lane) => withoutOverlaps(lane ?? [])),
    single: annotations.filter((each) => !paired.has(each)),
  };
}

// Drops ranges that overlap an earlier range of their depth. Ranges overlap if the trace lacks an
// end annotation.
function withoutOverlaps(lane: Region[]): Region[] {
  const kept: Region[] = [];
  for (const each of lane.toSorted((a, b) => a.from - b.from)) {
    if (kept.length === 0 || each.from >= kept[kept.length - 1].to) kept.push(each);
  }
  return kept;
}

// Returns the region that contains an entry, which may be fractional.
export function regionAt({ regions }: Lane, entry: number): Region | null {
  const next = firstAfter(regions, entry);
  return next > 0 && entry < regions[next - 1].to ? regions[next - 1] : null;
}

// Returns the regions that overlap a range of entries.
export function regionsIn({ regions }: Lane, from: number, to: number): Region[] {
  return regions.slice(Math.max(0, firstAfter(regions, from) - 1), firstAfter(regions, to));
}

// Returns the index of the first region that begins after an entry.
function firstAfter(regions: Region[], entry: number): number {
  let [low, high] = [0, regions.length];
  while (low < high) {
    const middle = (low + high) >> 1;
    if (regions[middle].from <= entry) low = middle + 1;
    else high = middle;
  }
  return low;
}
