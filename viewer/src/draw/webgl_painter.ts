// SPDX-License-Identifier: Apache-2.0
//
// Draws rectangles with WebGL2. Each rectangle is one instance, whose corners are derived from the
// vertex id. Positions and colours are in separate buffers, because a selection changes only
// colours.
import type { Quads } from "../model/tile_quads.ts";
import { paperOf, resize } from "./canvas.ts";
import type { PaintedQuads, Placement, QuadPainter } from "./quad_painter.ts";

const kVertexShader = `#version 300 es
layout(location = 0) in vec4 box;    // left, right, bottom, top
layout(location = 1) in vec4 color;
uniform vec4 place;                  // scale x, offset x, scale y, offset y
uniform vec2 screen;                 // pixels
out vec4 fill;
out vec2 from_edge;                  // x: distance from the top edge; y: height; in pixels
void main() {
  vec2 corner = vec2(gl_VertexID & 1, gl_VertexID >> 1);
  vec4 pixels = box * place.xxzz + place.yyww;
  vec2 at = vec2(mix(pixels.x, pixels.y, corner.x), mix(pixels.z, pixels.w, corner.y));
  float height = abs(pixels.w - pixels.z);
  fill = color;
  from_edge = vec2((1.0 - corner.y) * height, height);
  gl_Position = vec4(at.x / screen.x * 2.0 - 1.0, 1.0 - at.y / screen.y * 2.0, 0.0, 1.0);
}`;

// Draws a thin darker edge, which separates rectangles of one colour. Patterns are aligned to the
// screen.
const kFragmentShader = `#version 300 es
precision mediump float;
in vec4 fill;
in vec2 from_edge;
uniform vec4 paper;
out vec4 color;
void main() {
  vec3 ink = fill.rgb;
  if (fill.a < 0.3) {
    vec2 cell = mod(gl_FragCoord.xy, 6.0);
    ink = all(lessThan(cell, vec2(1.5))) ? ink : paper.rgb;
  } else if (fill.a < 0.7) {
    ink = mod(gl_FragCoord.x + gl_FragCoord.y, 7.0) < 2.0 ? ink : mix(ink, paper.rgb, 0.75);
  }
  if (from_edge.y > 4.0 && from_edge.x < 1.0) ink *= 0.8;
  color = vec4(ink, 1.0);
}`;

// The GPU buffers of rectangles, and the data to restore them.
interface StoredQuads {
  quads: Quads;
  colors: Uint32Array;
  array: WebGLVertexArrayObject | null;
  buffers: (WebGLBuffer | null)[]; // the buffer of positions, then that of colours
}

// The GPU context can be lost, for example when the machine sleeps. When the browser restores the
// context, the buffers are uploaded again and `restored` is called.
export class WebglPainter implements QuadPainter {
  readonly kind = "webgl2";
  private place: WebGLUniformLocation | null = null;
  private screen: WebGLUniformLocation | null = null;
  private paper: WebGLUniformLocation | null = null;
  private ratio = 1;
  private readonly kept = new Set<StoredQuads>();
  private readonly endings = new AbortController();

  constructor(
    private readonly gl: WebGL2RenderingContext,
    restored: () => void,
  ) {
    this.setUp();
    const { signal } = this.endings;
    // Without preventDefault(), the context is never restored.
    gl.canvas.addEventListener("webglcontextlost", (event) => event.preventDefault(), { signal });
    gl.canvas.addEventListener(
      "webglcontextrestored",
      () => {
        this.setUp();
        for (const each of this.kept) this.upload(each);
        restored();
      },
      { signal },
    );
  }

  // Gives up the context, because browsers allow about a dozen per page and drop the oldest.
  release(): void {
    this.endings.abort();
    this.gl.getExtension("WEBGL_lose_context")?.loseContext();
  }

  start(width: number, height: number, ratio: number): void {
    const { gl } = this;
    this.ratio = ratio;
    const canvas = gl.canvas as HTMLCanvasElement;
    resize(canvas, width, height, ratio);
    gl.viewport(0, 0, canvas.width, canvas.height);
    gl.uniform2f(this.screen, width, height);
    const [red, green, blue] = paperOf(canvas);
    gl.uniform4f(this.paper, red / 255, green / 255, blue / 255, 1);
    gl.scissor(0, 0, canvas.width, canvas.height);
    gl.clearColor(0, 0, 0, 0);
    gl.clear(gl.COLOR_BUFFER_BIT);
  }

  add(quads: Quads): PaintedQuads {
    const kept: StoredQuads = {
      quads,
      colors: new Uint32Array(quads.count),
      array: null,
      buffers: [],
    };
    this.upload(kept);
    this.kept.add(kept);
    return {
      setColors: (values) => {
        kept.colors = values;
        this.color(kept);
      },
      draw: (placement) => this.draw(kept, placement),
      release: () => {
        this.kept.delete(kept);
        this.gl.deleteVertexArray(kept.array);
        for (const buffer of kept.buffers) this.gl.deleteBuffer(buffer);
      },
    };
  }

  private setUp(): void {
    const { gl } = this;
    const program = link(gl);
    gl.useProgram(program);
    this.place = gl.getUniformLocation(program, "place");
    this.screen = gl.getUniformLocation(program, "screen");
    this.paper = gl.getUniformLocation(program, "paper");
    gl.enable(gl.SCISSOR_TEST);
  }

  private upload(kept: StoredQuads): void {
    const { gl } = this;
    kept.array = gl.createVertexArray();
    kept.buffers = [gl.createBuffer(), gl.createBuffer()];
    gl.bindVertexArray(kept.array);
    gl.bindBuffer(gl.ARRAY_BUFFER, kept.buffers[0]);
    gl.bufferData(gl.ARRAY_BUFFER, kept.quads.box, gl.STATIC_DRAW);
    gl.enableVertexAttribArray(0);
    gl.vertexAttribPointer(0, 4, gl.FLOAT, false, 0, 0);
    gl.vertexAttribDivisor(0, 1);
    gl.bindBuffer(gl.ARRAY_BUFFER, kept.buffers[1]);
    gl.bufferData(gl.ARRAY_BUFFER, kept.colors, gl.DYNAMIC_DRAW);
    gl.enableVertexAttribArray(1);
    gl.vertexAttribPointer(1, 4, gl.UNSIGNED_BYTE, true, 0, 0);
    gl.vertexAttribDivisor(1, 1);
    gl.bindVertexArray(null);
  }

  private color(kept: StoredQuads): void {
    this.gl.bindBuffer(this.gl.ARRAY_BUFFER, kept.buffers[1]);
    this.gl.bufferSubData(this.gl.ARRAY_BUFFER, 0, kept.colors);
  }

  private draw({ quads, array }: StoredQuads, to: Placement): void {
    const { gl, ratio } = this;
    const left = Math.max(0, Math.round(to.left * ratio));
    const right = Math.min(gl.canvas.width, Math.round(to.right * ratio));
    if (right <= left || quads.count === 0) return;
    gl.scissor(left, 0, right - left, gl.canvas.height);
    gl.uniform4f(this.place, to.scaleX, to.offsetX, to.scaleY, to.offsetY);
    gl.bindVertexArray(array);
    gl.drawArraysInstanced(gl.TRIANGLE_STRIP, 0, 4, quads.count);
    gl.bindVertexArray(null);
  }
}

function link(gl: WebGL2RenderingContext): WebGLProgram {
  const program = gl.createProgram();
  const sources: [number, string][] = [
    [gl.VERTEX_SHADER, kVertexShader],
    [gl.FRAGMENT_SHADER, kFragmentShader],
  ];
  for (const [type, source] of sources) {
    const shader = gl.createShader(type);
    if (!shader) continue; // the context is lost; it will be restored
    gl.shaderSource(shader, source);
    gl.compileShader(shader);
    gl.attachShader(program, shader);
  }
  gl.linkProgram(program);
  if (!gl.getProgramParameter(program, gl.LINK_STATUS) && !gl.isContextLost()) {
    throw new Error(`cannot link the WebGL2 program: ${gl.getProgramInfoLog(program)}`);
  }
  return program;
}
