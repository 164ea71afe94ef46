// SPDX-License-Identifier: Apache-2.0
//
// The side panel: moment, selection, and largest stacks.
import {
  formatBytes,
  formatCount,
  formatDuration,
  formatEntries,
  formatShare,
} from "../model/format.ts";
import type { DocumentScene, TileColumns } from "../api/scene.ts";
import { annotationBefore, isAfterTruncation, nearestOom } from "../model/annotations.ts";
import { entriesPerColumn } from "../model/tiles.ts";
import { client, moment, moveCursor, otherMoment, shown, stepCursor } from "../session.ts";
import { compareCursor, cursor, documentNumber, type View, view } from "../state.ts";
import { Categories } from "./categories.tsx";
import { LargestStacks } from "./largest_stacks.tsx";
import { Selected } from "./selected.tsx";
import { useRequest } from "./use_request.ts";

// These views show no chosen moment: the comparison shows peaks, the live view the current state.
const kWithoutMoment: readonly View[] = ["compare", "live"];

export function Details() {
  if (kWithoutMoment.includes(view.value)) return null;
  return (
    <aside>
      <Moment />
      <Selected />
      <Categories />
      <LargestStacks />
    </aside>
  );
}

interface MomentValues {
  requested: number;
  allocated: number;
  reserved: number;
  time_us: number;
  exact: boolean;
}

// Returns the values of one entry, from the deepest level or, if a self-contained file lacks that
// level, from the deepest level that the file has.
async function valuesAt(
  document: DocumentScene,
  number: number,
  at: number,
): Promise<MomentValues> {
  const api = client.peek()!;
  for (let level = document.levels - 1; ; --level) {
    const column = Math.floor(at / entriesPerColumn(document, level));
    const index = Math.floor(column / document.columns);
    try {
      const tile = await api.tile({ document: number, by: "pool", level, index, detail: 0 });
      const found = column - index * document.columns;
      return { ...pick(tile, found), exact: tile.entry[found] === at };
    } catch (problem) {
      if (level === 0) throw problem;
    }
  }
}

function pick(tile: TileColumns, column: number): Omit<MomentValues, "exact"> {
  return {
    requested: tile.requested[column],
    allocated: tile.allocated[column],
    reserved: tile.reserved[column],
    time_us: tile.time_us[column],
  };
}

function Moment() {
  const document = shown.value!;
  const number = documentNumber.value;
  const at = moment.value;
  const values = useRequest(() => valuesAt(document, number, at), `${number} ${at}`).value;
  const isPeak = at === document.reserved_peak.entry;
  const since = values && document.first_us !== null ? values.time_us - document.first_us : NaN;
  return (
    <section class="moment" data-moment={at}>
      <h2>
        {document.has_history ? `Entry ${formatCount(at)}` : "At the end"}
        {isPeak && document.has_history && <span class="badge">peak</span>}
        {document.ooms.some((oom) => oom.entry === at) && (
          <span class="badge oom">out of memory</span>
        )}
      </h2>
      {values && (
        <dl class="figures">
          <dt>requested</dt>
          <dd>
            {values.exact ? "" : "≈ "}
            {formatBytes(values.requested)}
          </dd>
          <dt>reserved</dt>
          <dd>
            {values.exact ? "" : "≈ "}
            {formatBytes(values.reserved)}
          </dd>
          <dt>unused</dt>
          <dd>
            {formatBytes(values.reserved - values.requested)}{" "}
            <small>{formatShare(values.reserved - values.requested, values.reserved)}</small>
          </dd>
          {Number.isFinite(since) && (
            <>
              <dt>time</dt>
              <dd>{formatDuration(since)}</dd>
            </>
          )}
        </dl>
      )}
      {cursor.value !== null && cursor.value !== at && (
        <p class="soft" data-moved>
          {document.moments
            ? `This file has no data for entry ${formatCount(cursor.value)}; showing the ` +
              "nearest moment."
            : `There is no entry ${formatCount(cursor.value)}; showing the last one.`}
        </p>
      )}
      {isPeak && <NextFailure at={at} />}
      {document.has_history && <MomentEvents at={at} />}
      <div class="buttons">
        <button type="button" onClick={() => stepCursor(-1)} title="Previous entry (key [)">
          ←
        </button>
        <button type="button" onClick={() => stepCursor(1)} title="Next entry (key ])">
          →
        </button>
        <button type="button" disabled={isPeak} onClick={() => (cursor.value = null)} title="Key p">
          Go to peak
        </button>
        <button
          type="button"
          aria-pressed={otherMoment.value !== null}
          onClick={() => (compareCursor.value = compareCursor.value === null ? at : null)}
          title="A second moment to compare with (key b, or Alt-click in the timeline)"
        >
          {otherMoment.value === null ? "Compare from here" : "Stop comparing"}
        </button>
      </div>
      {otherMoment.value !== null && (
        <p class="soft">Compared with entry {formatCount(otherMoment.value)} (B).</p>
      )}
    </section>
  );
}

// Links to the out-of-memory failure that is nearest to the peak and often caused by it.
function NextFailure({ at }: { at: number }) {
  const oom = nearestOom(shown.value!, at);
  if (!oom || oom.entry === at) return null;
  const distance = Math.abs(oom.entry - at);
  return (
    <p data-near-oom>
      A request for {formatBytes(oom.requested)} failed{" "}
      <button type="button" class="link" onClick={() => moveCursor(oom.entry)}>
        {formatEntries(distance)} {oom.entry > at ? "later" : "earlier"}
      </button>
      .{" "}
      <button type="button" class="link" onClick={() => (view.value = "oom")}>
        Why?
      </button>
    </p>
  );
}

// The out-of-memory failure at the moment, if any, and the last annotation at or before it.
function MomentEvents({ at }: { at: number }) {
  const document = shown.value!;
  const oom = document.ooms.find((each) => each.entry === at);
  const annotation = annotationBefore(document, at);
  return (
    <>
      {oom && (
        <p data-oom>
          {formatBytes(oom.requested)} could not be allocated here
          {oom.free < oom.requested
            ? `: the device had ${formatBytes(oom.free)} free.`
            : `, although the device had ${formatBytes(oom.free)} free: ` +
              "the process had a memory limit."}
        </p>
      )}
      {annotation !== null && (
        <p class="soft clipped" title={annotation} data-annotation>
          after “{annotation}”
        </p>
      )}
      {isAfterTruncation(document, at) && <p class="soft">Earlier annotations are not included.</p>}
    </>
  );
}
