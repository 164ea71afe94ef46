// Stacks as text. The innermost frame that says something is what people look for.
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

// One line for a stack: its innermost frame, or that there is none.
export function stackTitle(stacks: Stacks | null, stack: number): string {
  const frames = framesOf(stacks, stack);
  if (frames.length === 0) return stack === kNone ? "no stack" : "no frames recorded";
  return frameText(frames[frames.length - 1]);
}

export function hasStacks(stacks: Stacks | null): boolean {
  return stacks !== null && stacks.stacks.some((stack) => stack.length > 0);
}

// The same stack has the same text in every document, whatever its number.
export function stackKey(stacks: Stacks, stack: number): string {
  return framesOf(stacks, stack)
    .map((frame) => frame.join(":"))
    .join("\n");
}

// Where a file lies says little beyond its last folders.
export function shortPath(path: string): string {
  return path.split("/").slice(-3).join("/");
}
