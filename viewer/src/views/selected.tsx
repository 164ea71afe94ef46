// SPDX-License-Identifier: Apache-2.0
//
// Details of the selected allocation, stack, stream or pool.
import { kNone } from "../api/scene.ts";
import {
  formatAddress,
  formatBytes,
  formatCount,
  formatDuration,
  formatEntries,
} from "../model/format.ts";
import { frameText, framesOf, shortPath } from "../model/frames.ts";
import { selectedRow } from "../selection_details.ts";
import { client, hasCategories, moment, moveCursor, shown, stacks } from "../session.ts";
import { documentNumber, select, type Selection, selection, sourceFile, view } from "../state.ts";
import { groupTitle } from "./timeline_hover.tsx";
import { useRequest } from "./use_request.ts";

export function Selected() {
  const chosen = selection.value;
  if (!chosen) {
    return (
      <section class="selected none">
        <h2>Nothing selected</h2>
        <p class="soft">Click an allocation, a stack, a stream or a pool in any view.</p>
      </section>
    );
  }
  return (
    <section class="selected" data-selected={`${chosen.kind}:${chosen.id}`}>
      <h2>
        Selected {chosen.kind}
        <button
          type="button"
          class="close"
          onClick={() => (selection.value = null)}
          title="Key Esc"
        >
          ×
        </button>
      </h2>
      {chosen.kind === "allocation" ? <Allocation /> : <Group chosen={chosen} />}
    </section>
  );
}

function Allocation() {
  if (!selectedRow.value) return <p class="soft">…</p>;
  const { row, error } = selectedRow.value;
  if (!row) return <p class="soft">{error}</p>;
  const made = row.made[0];
  const freed = row.freed[0];
  const stack = row.stack[0];
  return (
    <>
      <p class="size">{formatBytes(row.bytes[0])}</p>
      <dl class="figures">
        <dt>allocated</dt>
        <dd>
          <Moment entry={made} none="before the trace" />
        </dd>
        <dt>freed</dt>
        <dd>
          <Moment entry={freed} none="never" />
        </dd>
        <dt>age</dt>
        <dd>{ageText(made, freed, moment.value)}</dd>
        {freed !== kNone && made !== kNone && row.freed_us[0] > row.made_us[0] && (
          <>
            <dt>lifetime</dt>
            <dd>{formatDuration(row.freed_us[0] - row.made_us[0])}</dd>
          </>
        )}
        <dt>address</dt>
        <dd class="code">{formatAddress(row.address[0])}</dd>
        <dt>stream</dt>
        <dd>
          <Choose kind="stream" id={row.stream[0]} />
        </dd>
        <dt>pool</dt>
        <dd>
          <Choose kind="pool" id={row.pool[0]} />
        </dd>
        {hasCategories.value && (
          <>
            <dt>category</dt>
            <dd>{shown.value!.categories[row.category[0]] ?? "unknown"}</dd>
          </>
        )}
      </dl>
      <Frames stack={stack} />
      <div class="buttons">
        {stack !== kNone && framesOf(stacks.value, stack).length > 0 && (
          <button type="button" onClick={() => select("stack", stack)}>
            All of this stack
          </button>
        )}
        <button type="button" onClick={() => showInMap(made, freed)}>
          In the address map
        </button>
      </div>
    </>
  );
}

function ageText(made: number, freed: number, at: number): string {
  if (made !== kNone && at < made) return "not yet allocated";
  if (freed !== kNone && at >= freed) return "already freed";
  return made === kNone ? "older than the trace" : formatEntries(at - made);
}

// Shows the map. If the allocation does not exist at the current moment, moves the cursor to the
// first moment of the allocation.
function showInMap(made: number, freed: number): void {
  const at = moment.value;
  const born = made === kNone ? 0 : made;
  if (at < born || (freed !== kNone && at >= freed)) moveCursor(born);
  view.value = "map";
}

function Moment({ entry, none }: { entry: number; none: string }) {
  if (entry === kNone) return <>{none}</>;
  return (
    <button type="button" class="link" onClick={() => moveCursor(entry)} title="Go to this moment">
      entry {formatCount(entry)}
    </button>
  );
}

function Choose({ kind, id }: { kind: "stream" | "pool"; id: number }) {
  const names = kind === "stream" ? shown.value!.streams : shown.value!.pools;
  return (
    <button
      type="button"
      class="link"
      onClick={() => select(kind, id)}
      title={`Select this ${kind}`}
    >
      {names[id] ?? "none"}
    </button>
  );
}

function Group({ chosen }: { chosen: Selection }) {
  const number = documentNumber.value;
  const at = moment.value;
  const isStack = chosen.kind === "stack";
  const bytes = useRequest(
    isStack ? () => client.peek()!.stackBytes(number, at) : null,
    `${number} ${at} ${isStack}`,
  ).value;
  const row = bytes && isStack ? bytes.stack.indexOf(chosen.id) : -1;
  return (
    <>
      {!isStack && <p>{groupTitle(chosen.kind as "stream" | "pool", chosen.id)}</p>}
      {isStack && bytes && (
        <dl class="figures">
          <dt>live bytes</dt>
          <dd>{row < 0 ? "0 B" : formatBytes(bytes.bytes[row])}</dd>
          <dt>allocations</dt>
          <dd>{row < 0 ? "0" : formatCount(bytes.count[row])}</dd>
        </dl>
      )}
      {isStack && <Frames stack={chosen.id} />}
    </>
  );
}

function showSource(path: string): void {
  sourceFile.value = path;
  view.value = "source";
}

// Lists the frames of a stack, innermost frame first.
export function Frames({ stack }: { stack: number }) {
  const frames = framesOf(stacks.value, stack);
  if (frames.length === 0) return <p class="soft">No stack was recorded.</p>;
  return (
    <ol class="frames">
      {[...frames].reverse().map((frame, i) => (
        <li key={i} title={`${frame[0]}\n${frame[1]}${frame[2] > 0 ? `:${frame[2]}` : ""}`}>
          <b>{frame[0]}</b>
          {frame[1] && (
            <button type="button" class="link" onClick={() => showSource(frame[1])}>
              {shortPath(frame[1])}
              {frame[2] > 0 ? `:${frame[2]}` : ""}
            </button>
          )}
          {!frame[1] && <span>{frameText(frame) === frame[0] ? "" : frameText(frame)}</span>}
        </li>
      ))}
    </ol>
  );
}
