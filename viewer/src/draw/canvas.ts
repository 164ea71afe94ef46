// SPDX-License-Identifier: Apache-2.0
//
// Helpers for drawing on a canvas.

export function resize(
  canvas: HTMLCanvasElement,
  width: number,
  height: number,
  ratio: number,
): void {
  const pixelsWide = Math.max(1, Math.round(width * ratio));
  const pixelsHigh = Math.max(1, Math.round(height * ratio));
  if (canvas.width !== pixelsWide) canvas.width = pixelsWide;
  if (canvas.height !== pixelsHigh) canvas.height = pixelsHigh;
}

// Returns the background colour, which shows through patterns.
export function paperOf(canvas: HTMLCanvasElement): number[] {
  const text = getComputedStyle(canvas).getPropertyValue("--paper-rgb");
  return text.trim().split(/\s+/).map(Number);
}

export function line(
  context: CanvasRenderingContext2D,
  x0: number,
  y0: number,
  x1: number,
  y1: number,
): void {
  context.beginPath();
  context.moveTo(x0, y0);
  context.lineTo(x1, y1);
  context.stroke();
}

// Shortens `text` by cutting out the middle, because many labels differ only near the end.
export function clipMiddle(text: string, fits: (text: string) => boolean): string {
  if (fits(text)) return text;
  for (let kept = text.length - 1; kept > 1; --kept) {
    const head = Math.ceil(kept / 2);
    const clipped = `${text.slice(0, head)}…${text.slice(text.length - (kept - head))}`;
    if (fits(clipped)) return clipped;
  }
  return "…";
}
