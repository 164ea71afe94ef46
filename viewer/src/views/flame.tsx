// SPDX-License-Identifier: Apache-2.0
//
// Flame graph of live bytes at a moment, or of the change between two. Outermost frames on top.
import { useEffect, useMemo, useRef, useState } from "preact/hooks";
import {
  cssColor,
  textColorOn,
  kGrownColor,
  kShrunkColor,
  mix,
  type Rgb,
} from "../model/colors.ts";
import {
  type FlameBox,
  flameBoxes,
  type FlameNode,
  flameTree,
  isMatch,
  matchingBytes,
  pathOfNames,
  pathOfStack,
} from "../model/flame_tree.ts";
import { formatBytes, formatChange, formatCount, formatShare } from "../model/format.ts";
import { ofCategory } from "../model/stack_use.ts";
import { selectedStack } from "../selection_details.ts";
import { client, coloring, moment, otherMoment, stacks, stacksRecorded } from "../session.ts";
import { category, documentNumber, flameRoot, search, select } from "../state.ts";
import { theme } from "../theme.ts";
import { SearchField } from "./search_field.tsx";
import { useRequest } from "./use_request.ts";

const kRowHeight = 22;
const kMinShare = 0.0008; // of the width: about a pixel

export function FlameView() {
  const number = documentNumber.value;
  const at = moment.value;
  const other = otherMoment.value;
  const api = client.value!;
  const only = category.value;
  const bytesAt = (moment: number) =>
    api
      .stackBytes(number, moment)
      .then((found) => (only === null ? found : ofCategory(found, only)));
  const now = useRequest(() => bytesAt(at), `${number} ${at} ${only}`);
  const before = useRequest(
    other === null ? null : () => bytesAt(other),
    `${number} ${other} ${only}`,
  );
  const isDifference = other !== null && before.value !== null;
  const tree = useMemo(
    () =>
      now.value && stacks.value
        ? flameTree(stacks.value, now.value, isDifference ? before.value : null)
        : null,
    [now.value, before.value, isDifference, stacks.value],
  );
  if (now.error) return <p class="empty">{now.error}</p>;
  if (!tree) return <p class="empty">…</p>;
  if (!stacksRecorded.value) {
    return (
      <p class="empty">
        This trace has no stacks. Record with <code>context="all"</code>.
      </p>
    );
  }
  return (
    <>
      <div class="controls">
        <SearchField />
        <Title at={now.value!.at} other={isDifference ? before.value!.at : null} tree={tree} />
        <Found tree={tree} />
        <span class="grow" />
        {isDifference && (
          <span class="legend">
            <i class="swatch" style={{ background: cssColor(kGrownColor) }} /> grew{" "}
            <i class="swatch" style={{ background: cssColor(kShrunkColor) }} /> shrank
          </span>
        )}
        <button
          type="button"
          disabled={flameRoot.value.length === 0}
          onClick={() => (flameRoot.value = [])}
        >
          All frames
        </button>
      </div>
      <Graph tree={tree} isDifference={isDifference} />
    </>
  );
}

// The moments of the response that is shown, which may still be the previous one.
function Title(props: { at: number; other: number | null; tree: FlameNode }) {
  const { at, other, tree } = props;
  if (other === null) {
    return (
      <span>
        {formatBytes(tree.now)} live at entry {formatCount(at)}
      </span>
    );
  }
  return (
    <span>
      {formatChange(tree.now - tree.before)} from entry {formatCount(other)} (B) to entry{" "}
      {formatCount(at)} (A); widths are the larger of the two
    </span>
  );
}

// The bytes of the stacks in which the search text occurs.
function Found({ tree }: { tree: FlameNode }) {
  if (search.value === "") return null;
  const bytes = matchingBytes(tree, search.value);
  return (
    <span data-found>
      found in {formatBytes(bytes)} ({formatShare(bytes, tree.now)})
    </span>
  );
}

function Graph({ tree, isDifference }: { tree: FlameNode; isDifference: boolean }) {
  const host = useRef<HTMLDivElement>(null);
  const [hovered, hover] = useState<FlameNode | null>(null);
  const above = useMemo(() => pathOfNames(tree, flameRoot.value), [tree, flameRoot.value]);
  const top = above[above.length - 1];
  const boxes = useMemo(() => flameBoxes(top, kMinShare), [top]);
  const chosen = selectedStack.value;
  const path = useMemo(
    () => new Set(chosen === null ? [] : pathOfStack(top, chosen)),
    [top, chosen],
  );
  useEffect(() => host.current?.scrollTo({ top: 0 }), [top]);
  const deepest = Math.max(...boxes.map((box) => box.depth));
  return (
    <>
      <div class="flame" ref={host} onPointerLeave={() => hover(null)}>
        <div style={{ height: `${(deepest + 1) * kRowHeight}px`, position: "relative" }}>
          {boxes.map((box, i) => (
            <Box
              key={i}
              box={box}
              color={colorOf(box.data, isDifference)}
              faded={
                search.value === ""
                  ? path.size > 0 && !path.has(box.data)
                  : !isMatch(box.data, search.value)
              }
              label={labelOf(box.data, isDifference)}
              onHover={hover}
              onClick={() => choose(above, box)}
            />
          ))}
        </div>
      </div>
      <p class="status">{describe(hovered ?? top, tree, isDifference)}</p>
    </>
  );
}

interface BoxProps {
  box: FlameBox;
  color: Rgb;
  faded: boolean;
  label: string;
  onHover: (node: FlameNode) => void;
  onClick: () => void;
}

function Box({ box, color, faded, label, onHover, onClick }: BoxProps) {
  return (
    <button
      type="button"
      class={`flame-box${faded ? " faded" : ""}`}
      style={{
        left: `${100 * box.x0}%`,
        width: `calc(${100 * (box.x1 - box.x0)}% - 1px)`,
        top: `${box.depth * kRowHeight}px`,
        background: cssColor(color),
        color: textColorOn(color),
      }}
      title={label}
      onPointerEnter={() => onHover(box.data)}
      onFocus={() => onHover(box.data)}
      onClick={onClick}
    >
      {box.x1 - box.x0 > 0.02 ? label : ""}
    </button>
  );
}

// Zooms to the frame, or from the top frame to its caller. Selects the stack that ends in the
// frame, if any. `above` are the frames from the root to the top frame.
function choose(above: FlameNode[], box: FlameBox): void {
  const below = box
    .ancestors()
    .map((ancestor) => ancestor.data)
    .reverse()
    .slice(1);
  const path = box.depth === 0 ? above.slice(0, -1) : [...above, ...below];
  flameRoot.value = path.flatMap((node) => node.names);
  if (box.data.stacks.length > 0) select("stack", box.data.stacks[0]);
}

function labelOf(node: FlameNode, isDifference: boolean): string {
  const bytes = isDifference ? formatChange(node.now - node.before) : formatBytes(node.now);
  return `${node.name}  ${bytes}`;
}

function describe(node: FlameNode, tree: FlameNode, isDifference: boolean): string {
  if (!isDifference) {
    return `${node.name} · ${formatBytes(node.now)} · ${formatShare(node.now, tree.now)} of all`;
  }
  const change = formatChange(node.now - node.before);
  return `${node.name} · ${formatBytes(node.before)} → ${formatBytes(node.now)} (${change})`;
}

// Frames at which a stack ends have its colour; callers have muted colours. In a comparison, colour
// shows direction and relative size of the change.
function colorOf(node: FlameNode, isDifference: boolean): Rgb {
  const quiet: Rgb = theme.value === "light" ? [226, 229, 234] : [52, 56, 64];
  if (!isDifference) {
    const [stack] = node.stacks;
    return stack === undefined ? quiet : coloring.value.stack.of(stack, theme.value);
  }
  const change = node.now - node.before;
  const share = Math.abs(change) / Math.max(1, node.now, node.before);
  return mix(quiet, change > 0 ? kGrownColor : kShrunkColor, Math.sqrt(share));
}
