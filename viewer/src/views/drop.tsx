// SPDX-License-Identifier: Apache-2.0
//
// Opens files dropped on the page.
import type { ComponentChildren } from "preact";
import { useState } from "preact/hooks";
import { isFile, openFiles } from "../session.ts";

export function DropTarget({ children }: { children: ComponentChildren }) {
  const [over, setOver] = useState(false);
  return (
    <div
      class="drop"
      onDragOver={(event) => {
        event.preventDefault();
        setOver(true);
      }}
      onDragLeave={(event) => {
        if (event.relatedTarget === null) setOver(false);
      }}
      onDrop={(event) => {
        event.preventDefault();
        setOver(false);
        void openFiles([...(event.dataTransfer?.files ?? [])]);
      }}
    >
      {children}
      {over && (
        <div class="drop-here">
          {isFile.value
            ? "A self-contained file cannot open others. Run “ashlar view FILE”."
            : "Drop snapshots to open them"}
        </div>
      )}
    </div>
  );
}
