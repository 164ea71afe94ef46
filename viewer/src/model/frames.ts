// SPDX-License-Identifier: Apache-2.0
//
// Stacks as text.
import { type Frame, kNone, type Stacks } from "../ask/scene.ts";

export function framesOf(stacks: Stacks | null, stack: number): Frame[] {
  if (!stacks || stack === kNone) return [];
  return (stacks.stacks[stack] ?? []).map((frame) => stacks.frames[frame]);
}

export function frameText(frame: Frame): string {
  const [name, file, line] = frame;
  if (!file) return name;
  return `${name}  ${shortPath(file)}${line > 0 ? `:${line}` : ""}`;
}

// One line for a stack: its innermost frame, and where that is PyTorch's own, whose code called it;
// there are hundreds of stacks that end in the same function of a library.
export function stackTitle(stacks: Stacks | null, stack: number): string {
  const frames = framesOf(stacks, stack);
  const innermost = frames[frames.length - 1];
  if (!innermost) return "no stack recorded";
  const owner = frames.findLast((frame) => !isLibrary(frame));
  if (!owner || owner === innermost) return frameText(innermost);
  return `${innermost[0]} ← ${frameText(owner)}`;
}

function isLibrary(frame: Frame): boolean {
  return frame[1] === "" || /(^|\/)torch\//.test(frame[1]) || frame[1].startsWith("<");
}

export function hasStacks(stacks: Stacks | null): boolean {
  return stacks !== null && stacks.stacks.some((stack) => stack.length > 0);
}

// Whether the text is in a frame, as "name:file:line"; only the letters of ASCII may be of the
// other case. `ashlar view` searches alike, and so do both tables.
export function hasFrame(stacks: Stacks | null, stack: number, text: string): boolean {
  const wanted = lower(text);
  return framesOf(stacks, stack).some((frame) => lower(frame.join(":")).includes(wanted));
}

function lower(text: string): string {
  return text.replace(/[A-Z]+/g, (letters) => letters.toLowerCase());
}

// The same stack has the same text in every document, whatever its number.
export function stackKey(stacks: Stacks, stack: number): string {
  return framesOf(stacks, stack)
    .map((frame) => frame.join(":"))
    .join("\n");
}

// Where a file lies says little beyond its last folders, and nothing above its package.
export function shortPath(path: string): string {
  return path
    .replace(/^.*\/(site|dist)-packages\//, "")
    .split("/")
    .slice(-3)
    .join("/");
}
