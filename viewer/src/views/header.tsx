// SPDX-License-Identifier: Apache-2.0
//
// Document name, view tabs, and buttons.
import { helpShown, keyOfView } from "../keys.ts";
import { isFile, scene, shown, waiting } from "../session.ts";
import { documentNumber, kViews, showDocument, type View, view } from "../state.ts";
import { switchTheme, theme } from "../theme.ts";
import { ChooseFile } from "./choose_file.tsx";

const kTitles: Record<View, string> = {
  timeline: "Timeline",
  map: "Address map",
  flame: "Flame graph",
  table: "Table",
  causes: "Causes",
  oom: "OOM",
  leaks: "Leaks",
  source: "Source",
  compare: "Compare",
  live: "Live",
};

export function Header() {
  return (
    <header>
      <span class="brand" title={scene.value?.program}>
        <Blocks /> Ashlar
      </span>
      <DocumentPicker />
      <nav aria-label="Views">
        {kViews.map(
          (name) =>
            isAvailable(name) && (
              <button
                type="button"
                key={name}
                aria-current={view.value === name ? "page" : undefined}
                onClick={() => (view.value = name)}
                title={`${kTitles[name]} (key ${keyOfView(name)})`}
              >
                {kTitles[name]}
              </button>
            ),
        )}
      </nav>
      <span class="grow" />
      {waiting.value && <span class="busy">{waiting.value.what} …</span>}
      {!isFile.value && (
        <ChooseFile class="button quiet" title="Open other files, or drop them on the page">
          Open…
        </ChooseFile>
      )}
      <button type="button" class="quiet" onClick={switchTheme} title="Light or dark (key t)">
        {theme.value === "light" ? "Dark" : "Light"}
      </button>
      <button
        type="button"
        class="quiet"
        onClick={() => (helpShown.value = true)}
        title="Help (key ?)"
      >
        ?
      </button>
    </header>
  );
}

function isAvailable(name: View): boolean {
  return name !== "live" || Boolean(scene.value?.live);
}

function DocumentPicker() {
  const documents = scene.value?.documents ?? [];
  if (documents.length === 1) {
    return (
      <span class="document">
        {shown.value?.name} <small>device {shown.value?.device}</small>
      </span>
    );
  }
  return (
    <select
      class="document"
      aria-label="Document"
      value={documentNumber.value}
      onChange={(event) => showDocument(Number(event.currentTarget.value))}
    >
      {documents.map((document, i) => (
        <option key={i} value={i}>
          {document.name}, device {document.device}
        </option>
      ))}
    </select>
  );
}

// The logo: four blocks.
export function Blocks() {
  return (
    <svg width="18" height="16" viewBox="0 0 18 16" aria-hidden="true">
      <path fill="#009E73" d="M0 1h11v6.4H0z" />
      <path fill="#56B4E9" d="M11.8 1H18v6.4h-6.2z" />
      <path fill="#0072B2" d="M0 8.2h6.6v6.4H0z" />
      <path fill="#E69F00" d="M7.4 8.2H18v6.4H7.4z" />
    </svg>
  );
}
