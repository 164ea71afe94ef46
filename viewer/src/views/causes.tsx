// SPDX-License-Identifier: Apache-2.0
//
// The causes of reserved but unused memory, and the peak under other settings.
import type { Causes, Trial } from "../api/scene.ts";
import { cssColor, kPalette } from "../model/colors.ts";
import { formatBytes, formatChange, formatDuration, formatShare, plural } from "../model/format.ts";
import { settingTitle } from "../model/settings.ts";
import { moveCursor, shown } from "../session.ts";
import { documentNumber, view } from "../state.ts";
import { useAnalysis } from "./use_request.ts";
import { WhatToDo } from "./what_to_do.tsx";

// The causes, in the order of `ashlar report`, which also provides the descriptions.
const kCauses: [name: string, title: string][] = [
  ["rounding", "rounding"],
  ["other_pool", "another pool"],
  ["other_stream", "another stream"],
  ["other_size", "the other size"],
  ["beside_live", "holes"],
  ["unused", "unused"],
];

export function CausesView() {
  const number = documentNumber.value;
  if (shown.value!.has_history) return <CausesReport key={number} />;
  return <p class="empty">This file contains no trace, so there is nothing to replay.</p>;
}

function CausesReport() {
  const { value: causes, error, progress } = useAnalysis("causes");
  if (error) return <p class="empty">{error}</p>;
  if (!causes) {
    return (
      <p class="empty" data-loading>
        {progress || "Replaying the run under other settings"} …
      </p>
    );
  }
  return (
    <div class="report">
      <WhatToDo sentences={causes.advice} />
      <Gap causes={causes} />
      <Alternatives causes={causes} />
    </div>
  );
}

function Gap({ causes }: { causes: Causes }) {
  const { reserved_bytes, requested_bytes, gap_bytes } = causes.at_peak;
  const parts = kCauses
    .map(([name, title], i) => ({
      title,
      description: causes.at_peak.explanations[name] ?? "",
      bytes: causes.at_peak.causes[name] ?? 0,
      color: cssColor(kPalette[(i + 1) % 7]),
    }))
    .filter((part) => part.bytes > 0);
  return (
    <section>
      <h2>Reserved but unused</h2>
      <p>
        At the peak, <b>{formatBytes(reserved_bytes)}</b> were reserved and{" "}
        <b>{formatBytes(requested_bytes)}</b> requested: <b>{formatBytes(gap_bytes)}</b> (
        {formatShare(gap_bytes, reserved_bytes)}) were unused.{" "}
        <button
          type="button"
          class="link"
          onClick={() => {
            moveCursor(causes.peak_entry ?? 0);
            view.value = "map";
          }}
        >
          Show in the address map
        </button>
      </p>
      <div class="bar" role="img" aria-label="Reserved memory by cause">
        <span
          class="requested"
          style={{ flexGrow: requested_bytes }}
          title={`requested: ${formatBytes(requested_bytes)}`}
        />
        {parts.map((part) => (
          <span
            key={part.title}
            style={{ flexGrow: part.bytes, background: part.color }}
            title={`${part.title}: ${formatBytes(part.bytes)}`}
          />
        ))}
      </div>
      <table class="plain">
        <tbody>
          <tr>
            <td>
              <i class="swatch requested" /> requested
            </td>
            <td class="number">{formatBytes(requested_bytes)}</td>
            <td class="number">{formatShare(requested_bytes, reserved_bytes)}</td>
            <td class="soft">by the program</td>
          </tr>
          {parts.map((part) => (
            <tr key={part.title}>
              <td>
                <i class="swatch" style={{ background: part.color }} /> {part.title}
              </td>
              <td class="number">{formatBytes(part.bytes)}</td>
              <td class="number">{formatShare(part.bytes, reserved_bytes)}</td>
              <td class="soft">{part.description}</td>
            </tr>
          ))}
        </tbody>
      </table>
    </section>
  );
}

// The title says "replayed", because the replay has no memory limit and may reserve more than the
// recorded run.
const kRecorded = "recorded settings, replayed";

interface Alternative {
  titles: string[];
  trial: Trial;
}

// Settings with the same result as the recorded setting are listed in its row.
function alternativesOf(results: Trial[]): Alternative[] {
  const recorded = results.find((trial) => trial.is_recorded);
  const rows: Alternative[] = recorded ? [{ titles: [kRecorded], trial: recorded }] : [];
  for (const trial of results) {
    if (trial.is_recorded) continue;
    const same =
      recorded &&
      trial.peak_reserved_bytes === recorded.peak_reserved_bytes &&
      trial.driver_us === recorded.driver_us;
    if (same) rows[0].titles.push(settingTitle(trial));
    else rows.push({ titles: [settingTitle(trial)], trial });
  }
  return rows.sort((a, b) => a.trial.peak_reserved_bytes - b.trial.peak_reserved_bytes);
}

function Alternatives({ causes }: { causes: Causes }) {
  const rows = alternativesOf(causes.results);
  const recorded = causes.results.find((trial) => trial.is_recorded)?.peak_reserved_bytes;
  const most = Math.max(
    ...rows.map((row) => row.trial.peak_reserved_bytes),
    causes.lower_bound_bytes,
    1,
  );
  if (rows.length === 0)
    return (
      <section>
        <h2>Peak under other settings</h2>
        <p class="soft">{causes.note}</p>
      </section>
    );
  return (
    <section>
      <h2>Peak under other settings</h2>
      <p class="soft">
        Results of replays. The dashed line is the lower bound,{" "}
        {formatBytes(causes.lower_bound_bytes)}: no allocator could have done with less.
      </p>
      {causes.note && <p class="soft">{causes.note}</p>}
      <div class="alternatives" style={{ "--bound": causes.lower_bound_bytes / most }}>
        <div class="alternative soft">
          <span>setting</span>
          <span />
          <span class="number">peak reserved</span>
          <span class="number">difference</span>
          <span class="number">driver time</span>
        </div>
        {rows.map(({ titles, trial }) => (
          <div
            key={titles[0]}
            class={`alternative${trial.is_recorded ? " recorded" : ""}`}
            title={titles.length > 1 ? `the same: ${titles.slice(1).join(", ")}` : ""}
          >
            <span class="title">
              {titles[0]}
              {titles.length > 1 && <small> and {titles.length - 1} that change nothing</small>}
            </span>
            <span class="track">
              <i style={{ width: `${(100 * trial.peak_reserved_bytes) / most}%` }} />
            </span>
            <span class="number">{formatBytes(trial.peak_reserved_bytes)}</span>
            <span class="number soft">
              {trial.is_recorded || recorded === undefined
                ? ""
                : formatChange(trial.peak_reserved_bytes - recorded)}
              {trial.ooms > 0 && ` · ${plural(trial.ooms, "OOM")}`}
            </span>
            <span class="number soft">{formatDuration(trial.driver_us)}</span>
          </div>
        ))}
      </div>
    </section>
  );
}
