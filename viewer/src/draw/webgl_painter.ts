// Rectangles by WebGL2: one instance each, four corners from the vertex number. Places and colours
// lie in buffers of their own, since a selection changes colours only.
import type { Quads } from "../model/tile_quads.ts";
import type { PaintedQuads, Placement, QuadPainter } from "./quad_painter.ts";

const kVertexShader = `#version 300 es
layout(location = 0) in vec4 box;    // left, right, bottom, top
layout(location = 1) in vec4 color;
uniform vec4 place;                  // scale x, offset x, scale y, offset y: to pixels
uniform vec2 screen;                 // pixels
out vec4 fill;
out vec2 from_edge;                  // pixels from the edge that y counts to, and of all its height
void main() {
  vec2 corner = vec2(gl_VertexID & 1, gl_VertexID >> 1);
  vec4 pixels = box * place.xxzz + place.yyww;
  vec2 at = vec2(mix(pixels.x, pixels.y, corner.x), mix(pixels.z, pixels.w, corner.y));
  float height = abs(pixels.w - pixels.z);
  fill = color;
  from_edge = vec2((1.0 - corner.y) * height, height);
  gl_Position = vec4(at.x / screen.x * 2.0 - 1.0, 1.0 - at.y / screen.y * 2.0, 0.0, 1.0);
}`;

// Neighbours of one colour are told apart by a thin darker edge. Patterns run along the screen.
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

export class WebglPainter implements QuadPainter {
  readonly kind = "webgl2";
  private readonly place: WebGLUniformLocation | null;
  private readonly screen: WebGLUniformLocation | null;
  private readonly paper: WebGLUniformLocation | null;
  private ratio = 1;

  constructor(private readonly gl: WebGL2RenderingContext) {
    const program = link(gl);
    gl.useProgram(program);
    this.place = gl.getUniformLocation(program, "place");
    this.screen = gl.getUniformLocation(program, "screen");
    this.paper = gl.getUniformLocation(program, "paper");
    gl.enable(gl.SCISSOR_TEST);
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
    const { gl } = this;
    const array = gl.createVertexArray();
    const box = gl.createBuffer();
    const colors = gl.createBuffer();
    gl.bindVertexArray(array);
    gl.bindBuffer(gl.ARRAY_BUFFER, box);
    gl.bufferData(gl.ARRAY_BUFFER, quads.box, gl.STATIC_DRAW);
    gl.enableVertexAttribArray(0);
    gl.vertexAttribPointer(0, 4, gl.FLOAT, false, 0, 0);
    gl.vertexAttribDivisor(0, 1);
    gl.bindBuffer(gl.ARRAY_BUFFER, colors);
    gl.bufferData(gl.ARRAY_BUFFER, 4 * quads.count, gl.DYNAMIC_DRAW);
    gl.enableVertexAttribArray(1);
    gl.vertexAttribPointer(1, 4, gl.UNSIGNED_BYTE, true, 0, 0);
    gl.vertexAttribDivisor(1, 1);
    gl.bindVertexArray(null);
    return {
      setColors: (values) => {
        gl.bindBuffer(gl.ARRAY_BUFFER, colors);
        gl.bufferSubData(gl.ARRAY_BUFFER, 0, values);
      },
      draw: (placement) => this.draw(array, quads.count, placement),
      release: () => {
        gl.deleteVertexArray(array);
        gl.deleteBuffer(box);
        gl.deleteBuffer(colors);
      },
    };
  }

  private draw(array: WebGLVertexArrayObject, count: number, to: Placement): void {
    const { gl, ratio } = this;
    const left = Math.max(0, Math.round(to.left * ratio));
    const right = Math.min(gl.canvas.width, Math.round(to.right * ratio));
    if (right <= left || count === 0) return;
    gl.scissor(left, 0, right - left, gl.canvas.height);
    gl.uniform4f(this.place, to.scaleX, to.offsetX, to.scaleY, to.offsetY);
    gl.bindVertexArray(array);
    gl.drawArraysInstanced(gl.TRIANGLE_STRIP, 0, 4, count);
    gl.bindVertexArray(null);
  }
}

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

// The colour behind the canvas, which patterns let through.
export function paperOf(canvas: HTMLCanvasElement): number[] {
  const text = getComputedStyle(canvas).getPropertyValue("--paper-rgb");
  return text.trim().split(/\s+/).map(Number);
}

function link(gl: WebGL2RenderingContext): WebGLProgram {
  const program = gl.createProgram();
  const sources: [number, string][] = [
    [gl.VERTEX_SHADER, kVertexShader],
    [gl.FRAGMENT_SHADER, kFragmentShader],
  ];
  for (const [type, source] of sources) {
    const shader = gl.createShader(type);
    if (!shader) throw new Error("WebGL2 gave no shader");
    gl.shaderSource(shader, source);
    gl.compileShader(shader);
    gl.attachShader(program, shader);
  }
  gl.linkProgram(program);
  if (!gl.getProgramParameter(program, gl.LINK_STATUS)) {
    throw new Error(`WebGL2 did not link: ${gl.getProgramInfoLog(program)}`);
  }
  return program;
}
