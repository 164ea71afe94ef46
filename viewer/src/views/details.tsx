// Beside every view: the moment, what is selected, and who holds memory at the moment.
import { formatBytes, formatCount, formatDuration, formatShare } from "../model/format.ts";
import { type TileColumns } from "../ask/scene.ts";
import { answers, moment, otherMoment, shown, stepCursor } from "../session.ts";
import { compareCursor, cursor, documentNumber, view } from "../state.ts";
import { Holders } from "./holders.tsx";
import { Selected } from "./selected.tsx";
import { useAnswer } from "./use_answer.ts";

export function Details() {
  if (view.value === "compare") return null;
  return (
    <aside>
      <Moment />
      <Selected />
      <Holders />
    </aside>
  );
}

interface MomentFigures {
  requested: number;
  allocated: number;
  reserved: number;
  time_us: number;
  exact: boolean;
}

// From the deepest level, where a column is one entry; a self-contained file may lack it, and then
// the column of the level that shows everything must do.
async function figuresAt(number: number, at: number): Promise<MomentFigures> {
  const ask = answers.peek()!;
  const document = shown.peek()!;
  const key = { document: number, by: "pool" as const, detail: 0 };
  const level = document.levels - 1;
  const index = Math.floor(at / document.columns);
  try {
    const tile = await ask.tile({ ...key, level, index });
    return { ...pick(tile, at - index * document.columns), exact: true };
  } catch {
    const tile = await ask.tile({ ...key, level: 0, index: 0 });
    return { ...pick(tile, Math.floor(at / 2 ** level)), exact: at === document.peak.entry };
  }
}

function pick(tile: TileColumns, column: number): Omit<MomentFigures, "exact"> {
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
  const figures = useAnswer(() => figuresAt(number, at), `${number} ${at}`).value;
  const isPeak = at === document.peak.entry;
  const since = figures && document.first_us !== null ? figures.time_us - document.first_us : NaN;
  return (
    <section class="moment" data-moment={at}>
      <h2>
        Entry {formatCount(at)}
        {isPeak && <span class="badge">peak</span>}
        {document.ooms.some((oom) => oom.entry === at) && (
          <span class="badge oom">out of memory</span>
        )}
      </h2>
      {figures && (
        <dl class="figures">
          <dt>requested</dt>
          <dd>
            {figures.exact ? "" : "≈ "}
            {formatBytes(figures.requested)}
          </dd>
          <dt>reserved</dt>
          <dd>
            {figures.exact ? "" : "≈ "}
            {formatBytes(figures.reserved)}
          </dd>
          <dt>not used</dt>
          <dd>
            {formatBytes(figures.reserved - figures.requested)}{" "}
            <small>{formatShare(figures.reserved - figures.requested, figures.reserved)}</small>
          </dd>
          {Number.isFinite(since) && (
            <>
              <dt>since the start</dt>
              <dd>{formatDuration(since)}</dd>
            </>
          )}
        </dl>
      )}
      <Happened at={at} />
      <div class="buttons">
        <button type="button" onClick={() => stepCursor(-1)} title="One entry back (key [)">
          ←
        </button>
        <button type="button" onClick={() => stepCursor(1)} title="One entry forward (key ])">
          →
        </button>
        <button type="button" disabled={isPeak} onClick={() => (cursor.value = null)} title="Key p">
          To the peak
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

// The out of memory at the moment, if it is one, and the last annotation before it.
function Happened({ at }: { at: number }) {
  const document = shown.value!;
  const oom = document.ooms.find((each) => each.entry === at);
  const annotation = document.annotations.findLast((each) => each.entry <= at);
  return (
    <>
      {oom && (
        <p data-oom>
          {formatBytes(oom.wanted)} could not be had here
          {oom.free < oom.wanted
            ? `: the device had ${formatBytes(oom.free)} free.`
            : `, though the device had ${formatBytes(oom.free)} free: the process had a limit.`}
        </p>
      )}
      {annotation && (
        <p class="soft clipped" title={annotation.text}>
          after “{annotation.text}”
        </p>
      )}
    </>
  );
}
