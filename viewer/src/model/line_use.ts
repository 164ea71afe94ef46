// SPDX-License-Identifier: Apache-2.0
//
// Live bytes by source line at a moment.
import type { StackBytes, Stacks } from "../api/scene.ts";
import { framesOf } from "./frames.ts";

export interface LineUse {
  bytes: number; // allocated by this line
  withCalls: number; // also by the functions that it calls; each allocation counts once
  largest: number | null; // the stack with the most bytes that ends at this line
}

const kNothing: LineUse = { bytes: 0, withCalls: 0, largest: null };

export class LineUses {
  private readonly byLine = new Map<string, LineUse>();

  // `bytes` has the largest stacks first.
  constructor(stacks: Stacks, bytes: StackBytes) {
    bytes.stack.forEach((stack, i) => {
      const frames = framesOf(stacks, stack).map(([, file, line]) => keyOf(file, line));
      for (const key of new Set(frames)) this.use(key).withCalls += bytes.bytes[i];
      const innermost = frames.at(-1);
      if (innermost === undefined) return;
      const use = this.use(innermost);
      use.bytes += bytes.bytes[i];
      use.largest ??= stack;
    });
  }

  of(file: string, line: number): LineUse {
    return this.byLine.get(keyOf(file, line)) ?? kNothing;
  }

  private use(key: string): LineUse {
    let use = this.byLine.get(key);
    if (!use) this.byLine.set(key, (use = { ...kNothing }));
    return use;
  }
}

function keyOf(file: string, line: number): string {
  return `${line} ${file}`;
}
