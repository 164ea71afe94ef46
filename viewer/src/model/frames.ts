// SPDX-License-Identifier: Apache-2.0
//
// Formatting and searching of stacks.
import { type Frame, kNone, type Stacks } from "../api/scene.ts";

export function framesOf(stacks: Stacks | null, stack: number): Frame[] {
  if (!stacks || stack === kNone) return [];
  return (stacks.stacks[stack] ?? []).map((frame) => stacks.frames[frame]);
}

export function frameText(frame: Frame): string {
  const [name, file, line] = frame;
  if (!file) return name;
  return `${name}  ${shortPath(file)}${line > 0 ? `:${line}` : ""}`;
}

// Returns the title of a stack on one line: the innermost frame and, if that frame is library code,
// the calling user code, because many stacks end in the same library function.
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

// Returns whether a frame, as "name:file:line", contains the text. ASCII letters match
// case-insensitively. The server applies the same rule.
export function hasFrame(stacks: Stacks | null, stack: number, text: string): boolean {
  const wanted = lower(text);
  return framesOf(stacks, stack).some((frame) => lower(frame.join(":")).includes(wanted));
}

function lower(text: string): string {
  return text.replace(/[A-Z]+/g, (letters) => letters.toLowerCase());
}

// Returns a key that identifies equal stacks across documents.
export function stackKey(stacks: Stacks, stack: number): string {
  return framesOf(stacks, stack)
    .map((frame) => frame.join(":"))
    .join("\n");
}

// Shortens a path to its part below site-packages or dist-packages, and to at most its last three
// names.
export function shortPath(path: string): string {
  return path
    .replace(/^.*\/(site|dist)-packages\//, "")
    .split("/")
    .slice(-3)
    .join("/");
}
