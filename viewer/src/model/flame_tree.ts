// SPDX-License-Identifier: Apache-2.0
//
// A tree of frames with live bytes, outermost frame at the root, for one or two moments.
import { hierarchy, type HierarchyRectangularNode, partition } from "d3-hierarchy";
import type { StackBytes, Stacks } from "../api/scene.ts";
import { frameText, framesOf, lower } from "./frames.ts";

// A node stands for one frame, or for a chain of frames in which every frame but the last has
// exactly one callee and is not the end of a stack.
export interface FlameNode {
  name: string; // of a chain: its frames, innermost first
  names: string[]; // of the frames, outermost first; empty at the root
  now: number; // bytes, including callees
  before: number; // bytes at the other moment; 0 if there is none
  width: number; // width of the rectangle: the larger bytes of both moments, summed over stacks
  stacks: number[]; // stacks that end here
  children: FlameNode[];
}

export function flameTree(stacks: Stacks, now: StackBytes, before: StackBytes | null): FlameNode {
  const root = makeNode("all");
  const byNode = new Map<FlameNode, Map<string, FlameNode>>();
  const bytesBefore = new Map<number, number>();
  before?.stack.forEach((stack, i) => bytesBefore.set(stack, before.bytes[i]));
  now.stack.forEach((stack, i) => {
    insert(root, byNode, stacks, { stack, now: now.bytes[i], before: bytesBefore.get(stack) ?? 0 });
    bytesBefore.delete(stack);
  });
  for (const [stack, bytes] of bytesBefore) {
    insert(root, byNode, stacks, { stack, now: 0, before: bytes });
  }
  root.children = root.children.map(collapsed);
  return root;
}

// Returns the tree with each chain as one node.
function collapsed(node: FlameNode): FlameNode {
  const names = [...node.names];
  let last = node;
  while (last.children.length === 1 && last.stacks.length === 0) {
    last = last.children[0];
    names.push(...last.names);
  }
  const name = [...names].reverse().join(" ← ");
  return { ...last, name, names, children: last.children.map(collapsed) };
}

export type FlameBox = HierarchyRectangularNode<FlameNode>;

// Lays out the frames, with x from 0 to 1 and depth downwards. Siblings are sorted by name, so that
// frames keep their position when the moment changes.
export function flameBoxes(root: FlameNode, narrowest: number): FlameBox[] {
  const tree = hierarchy(root, (node) => node.children)
    .sum((node) => ownWidth(node))
    .sort((a, b) => (a.data.name < b.data.name ? -1 : 1));
  return partition<FlameNode>()(tree)
    .descendants()
    .filter((box) => box.x1 - box.x0 >= narrowest);
}

// Returns the nodes from the root along `names` of frames, as far as they exist in this tree. Ends
// with the whole chain if the names end within a chain.
export function pathOfNames(root: FlameNode, names: string[]): FlameNode[] {
  const path = [root];
  for (let at = 0; at < names.length;) {
    const wanted = names.slice(at);
    const next = path[path.length - 1].children.find((child) =>
      child.names.every((name, i) => i >= wanted.length || name === wanted[i]),
    );
    if (!next) break;
    path.push(next);
    at += next.names.length;
  }
  return path;
}

// Returns the frames from the root to the end of a stack.
export function pathOfStack(root: FlameNode, stack: number): FlameNode[] {
  if (root.stacks.includes(stack)) return [root];
  for (const child of root.children) {
    const path = pathOfStack(child, stack);
    if (path.length > 0) return [root, ...path];
  }
  return [];
}

// Returns whether one of the node's frames contains the text, ignoring ASCII case.
export function isMatch(node: FlameNode, text: string): boolean {
  return node.names.some((name) => lower(name).includes(lower(text)));
}

// Returns the live bytes of all stacks with a matching frame. Each stack counts once, even if
// several of its frames match.
export function matchingBytes(node: FlameNode, text: string): number {
  if (isMatch(node, text)) return node.now;
  return node.children.reduce((sum, child) => sum + matchingBytes(child, text), 0);
}

interface Bytes {
  stack: number;
  now: number;
  before: number;
}

function insert(
  root: FlameNode,
  byNode: Map<FlameNode, Map<string, FlameNode>>,
  stacks: Stacks,
  bytes: Bytes,
): void {
  const names = framesOf(stacks, bytes.stack).map(frameText);
  let node = root;
  add(node, bytes);
  for (const name of names.length > 0 ? names : ["no stack recorded"]) {
    let children = byNode.get(node);
    if (!children) byNode.set(node, (children = new Map()));
    let child = children.get(name);
    if (!child) {
      child = makeNode(name, [name]);
      children.set(name, child);
      node.children.push(child);
    }
    node = child;
    add(node, bytes);
  }
  node.stacks.push(bytes.stack);
}

function add(node: FlameNode, bytes: Bytes): void {
  node.now += bytes.now;
  node.before += bytes.before;
  node.width += Math.max(bytes.now, bytes.before);
}

function ownWidth(node: FlameNode): number {
  return Math.max(0, node.width - node.children.reduce((sum, child) => sum + child.width, 0));
}

function makeNode(name: string, names: string[] = []): FlameNode {
  return { name, names, now: 0, before: 0, width: 0, stacks: [], children: [] };
}
