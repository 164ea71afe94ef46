// SPDX-License-Identifier: Apache-2.0
//
// Why the run ran out of memory: what to do, the request, the memory at that moment, the segments
// that could not be used, and the settings that would have sufficed.
import type { Oom, OomState, PinnedSegment } from "../api/scene.ts";
import { cssColor } from "../model/colors.ts";
import { formatBytes, formatCount, formatDuration, formatShare, plural } from "../model/format.ts";
import { reportedFrameText } from "../model/frames.ts";
import { settingTitle } from "../model/settings.ts";
import { coloring, moveCursor, shown } from "../session.ts";
import { view } from "../state.ts";
import { theme } from "../theme.ts";
import { AnalysisState } from "./analysis_state.tsx";
import { useAnalysis } from "./use_request.ts";
import { WhatToDo } from "./what_to_do.tsx";

export function OomView() {
  const { value: oom, error, progress } = useAnalysis("oom");
  if (!oom || oom.cannot_tell) {
    const waiting = "Replaying the run under other settings";
    return <AnalysisState value={oom} error={error} progress={progress} waiting={waiting} />;
  }
  if (!oom.out_of_memory) {
    return <p class="empty">This run did not run out of memory: all requests succeeded.</p>;
  }
  return (
    <div class="report oom">
      <Failure oom={oom} />
      <WhatToDo sentences={oom.verdict?.remedies ?? settingsThatSuffice(oom)} />
      {oom.holders && <Holders oom={oom} holders={oom.holders} />}
      {oom.state && <Facts oom={oom} state={oom.state} />}
      {oom.state && oom.state.pinned_segments.length > 0 && <Pinned state={oom.state} />}
      {oom.fitting.length > 0 && <Fitting oom={oom} />}
      {oom.is_reproduced === false && (
        <p class="soft">
          Other settings are not compared, because a replay under the recorded settings does not
          fail at this entry.
        </p>
      )}
    </div>
  );
}

// Returns the advice for results without a verdict.
function settingsThatSuffice(oom: Oom): string[] {
  const limit = formatBytes(oom.limit.replayed_bytes);
  const least = oom.fitting.toSorted((a, b) => a.peak_reserved_bytes - b.peak_reserved_bytes)[0];
  if (least) return [`With ${settingTitle(least)}, a replay completes within ${limit}.`];
  return [
    `None of the ${formatCount(oom.settings_tried)} replayed settings completes within ${limit}: ` +
      "keep less memory live. The flame graph shows which code holds it.",
  ];
}

function Failure({ oom }: { oom: Oom }) {
  const { entry } = oom;
  const requested = formatBytes(oom.requested_bytes ?? oom.rounded_bytes);
  return (
    <section data-failure>
      <h2>{oom.verdict?.text ?? "Out of memory"}</h2>
      <p>
        {requested} was requested
        {oom.frames.length > 0 && (
          <>
            {" "}
            by <span class="code">{reportedFrameText(oom.frames[0])}</span>
          </>
        )}
        {entry === null ? " before the first entry" : ` at entry ${formatCount(entry)}`}
        {oom.was_recorded ? "" : " of a replay"}.{" "}
        {entry !== null && (
          <>
            <Go to="timeline" entry={entry} title="Show in the timeline" />,{" "}
            <Go to="flame" entry={entry} title="in the flame graph" />, or{" "}
            <Go to="map" entry={entry} title="in the address map" />.
          </>
        )}
      </p>
    </section>
  );
}

const kMaxHolders = 10;

// The memory in use at the failure, by category and by line.
function Holders({ oom, holders }: { oom: Oom; holders: NonNullable<Oom["holders"]> }) {
  const names = shown.value!.categories;
  const colorOf = (name: string) =>
    cssColor(coloring.value.category.of(names.indexOf(name), theme.value));
  const more = holders.length - kMaxHolders;
  return (
    <section data-holders>
      <h2>In use at the failure: {formatBytes(oom.live_requested_bytes)}</h2>
      <div class="bar" role="img" aria-label="Memory in use by category">
        {oom.categories.map(({ name, bytes }) => (
          <span
            key={name}
            style={{ flexGrow: bytes, background: colorOf(name) }}
            title={`${name}: ${formatBytes(bytes)}`}
          />
        ))}
      </div>
      <p class="legend wrapped">
        {oom.categories.map(({ name, bytes }) => (
          <span key={name}>
            <i class="swatch" style={{ background: colorOf(name) }} /> {name} {formatBytes(bytes)}
          </span>
        ))}
      </p>
      <table class="plain">
        <tbody>
          {holders.slice(0, kMaxHolders).map((holder, i) => (
            <tr key={i}>
              <td class="number">{formatBytes(holder.bytes)}</td>
              <td class="number">{formatShare(holder.bytes, oom.live_requested_bytes)}</td>
              <td class="soft">{holder.category}</td>
              <td class="frame">
                {holder.stack.length > 0 ? reportedFrameText(holder.stack[0]) : "no stack"}
              </td>
            </tr>
          ))}
        </tbody>
      </table>
      {more > 0 && <p class="soft">and {plural(more, "smaller holder")}</p>}
    </section>
  );
}

function Go(props: { to: "timeline" | "flame" | "map"; entry: number; title: string }) {
  return (
    <button
      type="button"
      class="link"
      onClick={() => {
        moveCursor(props.entry);
        view.value = props.to;
      }}
    >
      {props.title}
    </button>
  );
}

function Facts({ oom, state }: { oom: Oom; state: OomState }) {
  const rows: [string, string][] = [
    [
      "request",
      `${formatBytes(oom.rounded_bytes)} after rounding, in a segment of ` +
        formatBytes(oom.segment_bytes),
    ],
    ["memory limit", limitText(oom.limit)],
    ["free on the device", formatBytes(oom.device_free_bytes)],
    ["reserved", formatBytes(state.reserved_bytes)],
    ["allocated", formatBytes(state.allocated_bytes)],
    [
      "free in the cache",
      `${formatBytes(state.free_bytes)}, of which ${formatBytes(state.usable_free_bytes)} in ` +
        "the stream and pool of the request",
    ],
    [
      "largest free block",
      `${formatBytes(state.largest_hole_bytes)}; ` +
        `${formatBytes(state.largest_usable_hole_bytes)} in that stream and pool`,
    ],
  ];
  return (
    <section>
      <h2>The allocator at the failure</h2>
      <table class="plain">
        <tbody>
          {rows.map(([name, text]) => (
            <tr key={name}>
              <td class="soft">{name}</td>
              <td>{text}</td>
            </tr>
          ))}
        </tbody>
      </table>
    </section>
  );
}

function limitText(limit: Oom["limit"]): string {
  const owner = limit.is_of_device ? "of the device" : "of the process";
  if (!limit.is_inferred) return `${formatBytes(limit.replayed_bytes)}, ${owner}`;
  return (
    `about ${formatBytes(limit.at_least_bytes)}, ${owner} (${formatBytes(limit.at_least_bytes)} ` +
    `were granted, ${formatBytes(limit.below_bytes)} refused)`
  );
}

function Pinned({ state }: { state: OomState }) {
  return (
    <section>
      <h2>Segments with the most free memory, and the blocks that hold them</h2>
      <table class="plain">
        <thead>
          <tr>
            {["segment", "free", "largest free block", "held by", "", ""].map((title, i) => (
              <th key={i} class={i < 4 ? "number" : ""}>
                {title}
              </th>
            ))}
          </tr>
        </thead>
        <tbody>{state.pinned_segments.map((segment) => blockRows(segment))}</tbody>
      </table>
    </section>
  );
}

function blockRows(segment: PinnedSegment) {
  const more = segment.live_blocks - segment.largest_blocks.length;
  return segment.largest_blocks.map((block, i) => (
    <tr key={`${segment.address} ${i}`}>
      {[segment.total_bytes, segment.free_bytes, segment.largest_hole_bytes].map((bytes, k) => (
        <td key={k} class="number">
          {i === 0 ? formatBytes(bytes) : ""}
        </td>
      ))}
      <td class="number">{formatBytes(block.bytes)}</td>
      <td class="soft">
        {ageText(block)}
        {i === segment.largest_blocks.length - 1 &&
          more > 0 &&
          `, and ${plural(more, "smaller block")}`}
      </td>
      <td class="frame">{block.frames.length > 0 ? reportedFrameText(block.frames[0]) : ""}</td>
    </tr>
  ));
}

function ageText(block: PinnedSegment["largest_blocks"][0]): string {
  if (block.made_at_entry === null) return "allocated before the recording";
  if (block.age_us === null) return `allocated at entry ${formatCount(block.made_at_entry)}`;
  return `${formatDuration(block.age_us)} old`;
}

function Fitting({ oom }: { oom: Oom }) {
  return (
    <section>
      <h2>Settings under which the run completes within {formatBytes(oom.limit.replayed_bytes)}</h2>
      <table class="plain" data-fitting>
        <tbody>
          {oom.fitting.map((trial) => (
            <tr key={`${trial.engine} ${trial.conf}`}>
              <td>{settingTitle(trial)}</td>
              <td class="number">{formatBytes(trial.peak_reserved_bytes)} reserved at its peak</td>
              <td class="soft">{formatDuration(trial.driver_us)} of driver time</td>
            </tr>
          ))}
        </tbody>
      </table>
      <p class="soft">
        {plural(oom.fitting.length, "setting")} of {formatCount(oom.settings_tried)} that were
        replayed.
      </p>
    </section>
  );
}
