// SPDX-License-Identifier: Apache-2.0
//
// The whole page takes files that are dropped on it.
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
            ? "This is a self-contained file; it cannot read others. Run “ashlar view FILE”."
            : "Drop snapshots to read them beside what is open"}
        </div>
      )}
    </div>
  );
}
