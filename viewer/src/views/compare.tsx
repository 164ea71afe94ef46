// SPDX-License-Identifier: Apache-2.0
//
// Comparison of documents: all of them in a table, and two in detail.
import type { DocumentScene } from "../api/scene.ts";
import { unusedBytes, imbalance, comparedDocument, titleOf } from "../model/compare.ts";
import { formatBytes, formatCount, formatShare, plural } from "../model/format.ts";
import { isFile, scene } from "../session.ts";
import { documentNumber, otherDocument, showDocument } from "../state.ts";
import { CompareCurves } from "./compare_curves.tsx";
import { CompareStacks } from "./compare_stacks.tsx";

export function CompareView() {
  const documents = scene.value!.documents;
  const base = documentNumber.value;
  const other = comparedDocument(base, otherDocument.value, documents.length);
  return (
    <div class="report wide">
      <Ranks documents={documents} base={base} other={other} />
      {other !== null ? (
        <>
          <CompareCurves key={`${base} ${other}`} documents={documents} of={[base, other]} />
          <CompareStacks documents={documents} of={[base, other]} />
        </>
      ) : (
        <p class="soft">
          {isFile.value
            ? "This file contains one document. To compare, run “ashlar view A B”."
            : "To compare, drop a second file on the page, or run “ashlar view A B …”. " +
              "Compare ranks of one job, or runs before and after a change."}
        </p>
      )}
    </div>
  );
}

interface RanksProps {
  documents: DocumentScene[];
  base: number;
  other: number | null;
}

function Ranks({ documents, base, other }: RanksProps) {
  const spread = imbalance(documents.map((document) => document.reserved_peak.reserved));
  const most = Math.max(...documents.map((document) => document.reserved_peak.reserved), 1);
  return (
    <section>
      <h2>{documents.length > 2 ? "Ranks" : "Documents"}</h2>
      {documents.length > 1 && (
        <p>
          The largest is <b>{titleOf(documents[spread.worst])}</b>, with{" "}
          {formatBytes(documents[spread.worst].reserved_peak.reserved)} reserved at its peak:{" "}
          {formatShare(spread.share, 1)} above the mean of {plural(documents.length, "document")} (
          {formatBytes(spread.mean)}).
        </p>
      )}
      <table class="plain ranks">
        <thead>
          <tr>
            <th title="The base of the comparison">A</th>
            <th title="Compared with the base">B</th>
            <th>document</th>
            <th class="number">peak requested</th>
            <th class="number">peak reserved</th>
            <th />
            <th class="number" title="Reserved minus requested at the peak of reserved memory">
              gap
            </th>
            <th class="number">OOMs</th>
            <th class="number">allocations</th>
          </tr>
        </thead>
        <tbody>
          {documents.map((document, i) => (
            <tr key={i} class={i === spread.worst && documents.length > 1 ? "worst" : ""}>
              <td>
                <input
                  type="radio"
                  name="base"
                  aria-label={`compare ${titleOf(document)}`}
                  checked={i === base}
                  onChange={() => chooseBase(i, base, other)}
                />
              </td>
              <td>
                <input
                  type="radio"
                  name="other"
                  aria-label={`compare with ${titleOf(document)}`}
                  checked={i === other}
                  disabled={i === base}
                  onChange={() => (otherDocument.value = i)}
                />
              </td>
              <td>{titleOf(document)}</td>
              <td class="number">{formatBytes(document.peak.requested)}</td>
              <td class="number">{formatBytes(document.reserved_peak.reserved)}</td>
              <td class="track-cell">
                <Bar document={document} most={most} />
              </td>
              <td class="number">
                {formatBytes(unusedBytes(document))}{" "}
                <small>{formatShare(unusedBytes(document), document.reserved_peak.reserved)}</small>
              </td>
              <td class="number">{formatCount(document.oom_count)}</td>
              <td class="number">{formatCount(document.allocations)}</td>
            </tr>
          ))}
        </tbody>
      </table>
    </section>
  );
}

// Chooses the base. If the new base was the other document, the two documents swap roles.
function chooseBase(next: number, base: number, other: number | null): void {
  otherDocument.value = next === other ? base : other;
  showDocument(next);
}

function Bar({ document, most }: { document: DocumentScene; most: number }) {
  return (
    <span class="track">
      <i class="reserved" style={{ width: `${(100 * document.reserved_peak.reserved) / most}%` }} />
      <i class="requested" style={{ width: `${(100 * document.peak.requested) / most}%` }} />
    </span>
  );
}
