// SPDX-License-Identifier: Apache-2.0
//
// The page: header, overview, the current view, and a panel with details on moment and selection.
// Before a document is open, it shows progress or the error.
import { failure, notice, shown, waiting } from "../session.ts";
import { type View, view } from "../state.ts";
import { AddressMapView } from "./address_map.tsx";
import { CausesView } from "./causes.tsx";
import { CompareView } from "./compare.tsx";
import { Details } from "./details.tsx";
import { DropTarget } from "./drop.tsx";
import { FlameView } from "./flame.tsx";
import { Header } from "./header.tsx";
import { Help } from "./help.tsx";
import { LeaksView } from "./leaks.tsx";
import { LiveView } from "./live.tsx";
import { Failed, Loading } from "./loading.tsx";
import { OomView } from "./oom.tsx";
import { Overview } from "./overview.tsx";
import { SourceView } from "./source.tsx";
import { TableView } from "./table.tsx";
import { TimelineView } from "./timeline.tsx";

const kViewParts: Record<View, () => preact.JSX.Element | null> = {
  timeline: TimelineView,
  map: AddressMapView,
  flame: FlameView,
  table: TableView,
  causes: CausesView,
  oom: OomView,
  leaks: LeaksView,
  source: SourceView,
  compare: CompareView,
  live: LiveView,
};

export function App() {
  return (
    <DropTarget>
      {shown.value ? <Page /> : failure.value && !waiting.value ? <Failed /> : <Loading />}
      <Notice />
      <Help />
    </DropTarget>
  );
}

function Page() {
  const Shown = kViewParts[view.value];
  return (
    <div class="page">
      <Header />
      <main data-view={view.value}>
        {view.value !== "live" && <Overview />}
        <div class="view">
          <Shown key={view.value} />
        </div>
      </main>
      <Details />
    </div>
  );
}

function Notice() {
  if (!notice.value) return null;
  return (
    <div class="notice" role="alert">
      <span>{notice.value}</span>
      <button type="button" onClick={() => (notice.value = null)} aria-label="Close">
        ×
      </button>
    </div>
  );
}
