// SPDX-License-Identifier: Apache-2.0
//
// A button that lets people choose files to read beside the ones there are.
import type { ComponentChildren } from "preact";
import { openFiles } from "../session.ts";

// The input lies in it unseen, but not hidden: what is hidden cannot be reached by the keyboard.
export function ChooseFile(props: { class: string; title?: string; children: ComponentChildren }) {
  return (
    <label class={props.class} title={props.title}>
      {props.children}
      <input
        type="file"
        multiple
        class="unseen"
        onChange={(event) => {
          const files = [...(event.currentTarget.files ?? [])];
          event.currentTarget.value = "";
          void openFiles(files);
        }}
      />
    </label>
  );
}
