// SPDX-License-Identifier: Apache-2.0
//
// Formatting and searching of stacks.
import { type Frame, kNone, type StackFrame, type Stacks } from "../api/scene.ts";

export function framesOf(stacks: Stacks | null, stack: number): Frame[] {
  if (!stacks || stack === kNone) return [];
  return (stacks.stacks[stack] ?? []).map((frame) => stacks.frames[frame]);
}

export function frameText(frame: Frame): string {
  const [name, file, line] = frame;
  if (!file) return name;
  return `${name}  ${shortPath(file)}${line > 0 ? `:${line}` : ""}`;
}

// Returns the title of a stack on one line: its innermost frame. The server sends only the frames
// of the user's code, unless a stack has no such frames.
export function stackTitle(stacks: Stacks | null, stack: number): string {
  const innermost = framesOf(stacks, stack).at(-1);
  return innermost ? frameText(innermost) : "no stack recorded";
}

// Returns whether stacks were recorded. Labels, such as that of allocations from before the
// recording, are frames without a file.
export function hasStacks(stacks: Stacks | null): boolean {
  return stacks !== null && stacks.frames.some((frame) => frame[1] !== "");
}

// Returns whether a frame, as "name:file:line", contains the text. ASCII letters match
// case-insensitively. The server applies the same rule.
export function hasFrame(stacks: Stacks | null, stack: number, text: string): boolean {
  const wanted = lower(text);
  return framesOf(stacks, stack).some((frame) => lower(frame.join(":")).includes(wanted));
}

export function lower(text: string): string {
  return text.replace(/[A-Z]+/g, (letters) => letters.toLowerCase());
}

// Returns a key that identifies equal stacks across documents.
export function stackKey(stacks: Stacks, stack: number): string {
  return framesOf(stacks, stack)
    .map((frame) => frame.join(":"))
    .join("\n");
}

// Returns the number of the stack with these frames, innermost first; null if there is none.
export function stackNumberOf(stacks: Stacks | null, frames: StackFrame[]): number | null {
  if (!stacks) return null;
  const wanted = frames.map(({ name, filename, line }) => `${name}:${filename}:${line}`).reverse();
  const found = stacks.stacks.findIndex(
    (_, stack) => stackKey(stacks, stack) === wanted.join("\n"),
  );
  return found < 0 ? null : found;
}

export function reportedFrameText({ name, filename, line }: StackFrame): string {
  return frameText([name, filename, line]);
}

// Shortens a path to its part below site-packages or dist-packages, and to at most its last three
// names. The path may use the separators of Windows.
export function shortPath(path: string): string {
  return path
    .replace(/^.*[\\/](site|dist)-packages[\\/]/, "")
    .split(/[\\/]/)
    .slice(-3)
    .join("/");
}
