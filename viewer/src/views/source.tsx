// SPDX-License-Identifier: Apache-2.0
//
// The user's files, with live bytes at the moment and bytes over the run beside each line.
import { useEffect, useMemo } from "preact/hooks";
import type { SourceFile, SourceFiles, SourceLine } from "../api/scene.ts";
import { formatBytes, formatCount } from "../model/format.ts";
import { framesOf, shortPath } from "../model/frames.ts";
import { LineUses } from "../model/line_use.ts";
import { selectedStack } from "../selection_details.ts";
import { client, moment, stacks } from "../session.ts";
import { documentNumber, select, sourceFile } from "../state.ts";
import { AnalysisState } from "./analysis_state.tsx";
import { Cell } from "./table_parts.tsx";
import { useAnalysis, useRequest } from "./use_request.ts";
import { type RowPlace, VirtualRows } from "./virtual_rows.tsx";

export function SourceView() {
  const { value: sources, error, progress } = useAnalysis("annotate");
  if (!sources || sources.cannot_tell) {
    const waiting = "Summing up bytes by line";
    return <AnalysisState value={sources} error={error} progress={progress} waiting={waiting} />;
  }
  if (sources.files.length === 0) {
    return (
      <p class="empty">
        This trace has no stacks with the program's own files. Record with{" "}
        <code>context="all"</code>.
      </p>
    );
  }
  return <Files sources={sources} />;
}

function Files({ sources }: { sources: SourceFiles }) {
  const chosen = Math.max(
    0,
    sources.files.findIndex((file) => file.path === sourceFile.value),
  );
  const file = sources.files[chosen];
  return (
    <>
      <div class="controls">
        <select
          aria-label="File"
          value={chosen}
          onChange={(event) =>
            (sourceFile.value = sources.files[Number(event.currentTarget.value)].path)
          }
        >
          {sources.files.map((each, i) => (
            <option key={each.path} value={i}>
              {shortPath(each.path)}: {formatBytes(each.bytes_at_peak)} at the peak
            </option>
          ))}
        </select>
        <span class="soft clipped" title={file.path}>
          {file.path}
        </span>
      </div>
      <File file={file} index={chosen} />
    </>
  );
}

interface Line {
  number: number;
  text: string;
  known: SourceLine | null; // null: the line allocated nothing
}

// Returns the lines to show: all lines if the text of the file is available, otherwise the lines
// that allocated.
function linesOf(file: SourceFile, text: string[] | null): Line[] {
  const known = new Map(file.lines.map((line) => [line.line, line]));
  if (!text) {
    return file.lines.map((line) => ({
      number: line.line,
      text: line.text ?? `in ${line.function}`,
      known: line,
    }));
  }
  const lines = text.map((words, i) => ({
    number: i + 1,
    text: words,
    known: known.get(i + 1) ?? null,
  }));
  const beyond = file.lines.filter((line) => line.line < 1 || line.line > text.length);
  return [
    ...lines,
    ...beyond.map((line) => ({ number: line.line, text: `in ${line.function}`, known: line })),
  ];
}

function File({ file, index }: { file: SourceFile; index: number }) {
  const number = documentNumber.value;
  const at = moment.value;
  const text = useRequest(
    file.source === null ? null : () => client.peek()!.sourceText(number, index),
    `${number} ${file.source === null ? "" : index}`,
  );
  const bytes = useRequest(() => client.peek()!.stackBytes(number, at), `${number} ${at}`).value;
  const found = stacks.value;
  const uses = useMemo(() => (found && bytes ? new LineUses(found, bytes) : null), [found, bytes]);
  const lines = useMemo(
    () => linesOf(file, file.source === null ? null : text.value),
    [file, text.value],
  );
  const most = Math.max(1, ...lines.map((line) => uses?.of(file.path, line.number).bytes ?? 0));
  const ofStack = new Set(
    selectedStack.value === null
      ? []
      : framesOf(found, selectedStack.value)
          .filter(([, path]) => path === file.path)
          .map(([, , line]) => line),
  );
  useScrollToHeaviest(file, lines, uses);
  const choose = (row: number) => {
    const largest = uses?.of(file.path, lines[row].number).largest ?? null;
    if (largest !== null) select("stack", largest);
  };
  return (
    <div class="table source" data-lines={lines.length} data-has-text={text.value !== null}>
      <VirtualRows
        label="Lines"
        head={<Head at={at} />}
        count={lines.length}
        resetOn={`${number} ${file.path}`}
        row={(row, place) => (
          <LineRow
            line={lines[row]}
            use={uses?.of(file.path, lines[row].number) ?? null}
            most={most}
            isRelated={ofStack.has(lines[row].number)}
            place={place}
            onClick={() => choose(row)}
          />
        )}
        onChoose={choose}
      />
      <p class="status">
        {formatBytes(file.bytes_at_peak)} at the peak, {formatBytes(file.allocated_bytes)} over the
        run
        {file.source === null && `. ${whyNoText(file)}`}
      </p>
    </div>
  );
}

const kNotLookedFor = "not looked for"; // the problem if ashlar view runs without --source

function whyNoText({ source_problem }: SourceFile): string {
  if (source_problem && source_problem !== kNotLookedFor) return source_problem;
  return "Run ashlar view with --source DIR to see the text of the lines.";
}

const kRowHeight = 28;
const kLinesAbove = 4;

// Scrolls to the line with the most bytes when a file is opened.
function useScrollToHeaviest(file: SourceFile, lines: Line[], uses: LineUses | null): void {
  useEffect(() => {
    if (!uses) return;
    const bytes = lines.map((line) => uses.of(file.path, line.number).bytes);
    const heaviest = bytes.indexOf(Math.max(...bytes));
    document
      .querySelector(".source .rows")
      ?.scrollTo({ top: Math.max(0, heaviest - kLinesAbove) * kRowHeight });
  }, [file, lines.length, uses !== null]);
}

function Head({ at }: { at: number }) {
  return (
    <div class="row head" role="row">
      <span
        role="columnheader"
        class="number"
        title={`allocated by this line, live at entry ${at}`}
      >
        live at {formatCount(at)}
      </span>
      <span role="columnheader" class="number" title="also by the functions that the line calls">
        with calls
      </span>
      <span role="columnheader" class="number" title="requested by all allocations of this line">
        over the run
      </span>
      <span role="columnheader" class="number">
        line
      </span>
      <span role="columnheader">source</span>
    </div>
  );
}

function LineRow(props: {
  line: Line;
  use: ReturnType<LineUses["of"]> | null;
  most: number;
  isRelated: boolean;
  place: RowPlace;
  onClick: () => void;
}) {
  const { line, use } = props;
  const bytes = use?.bytes ?? 0;
  return (
    <div
      class={`row${props.isRelated ? " related" : ""}`}
      role="row"
      data-line={line.number}
      onClick={props.onClick}
      {...props.place}
    >
      <Cell>
        <i class="heat" style={{ width: `${(100 * bytes) / props.most}%` }} />
        {bytes > 0 ? formatBytes(bytes) : ""}
      </Cell>
      <Cell>{use && use.withCalls > 0 ? formatBytes(use.withCalls) : ""}</Cell>
      <Cell>{line.known?.allocated_bytes ? formatBytes(line.known.allocated_bytes) : ""}</Cell>
      <Cell class="number soft">{line.number > 0 ? line.number : "?"}</Cell>
      <Cell class="source-text">{line.text}</Cell>
    </div>
  );
}
