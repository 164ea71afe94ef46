// SPDX-License-Identifier: Apache-2.0
//
// The front door: finds where answers come from, shows the page, and starts asking.
// Next room: session.ts for what is open, views/app.tsx for what is shown.
import { render } from "preact";
import { EmbeddedSource } from "./ask/embedded_source.ts";
import { HttpSource } from "./ask/http_source.ts";
import { listenToKeys } from "./keys.ts";
import { watch } from "./live.ts";
import { followSelection } from "./selected.ts";
import { scene, start } from "./session.ts";
import { keepInAddress, view } from "./state.ts";
import "./style/page.css";
import "./style/views.css";
import { followTheme } from "./theme.ts";
import { App } from "./views/app.tsx";

const isFirstVisit = location.hash === "";
keepInAddress();
followTheme();
followSelection();
listenToKeys();
render(<App />, document.getElementById("app")!);
await start(EmbeddedSource.find(document) ?? new HttpSource(new URL(".", location.href).href));
if (scene.value?.live) {
  if (isFirstVisit) view.value = "live";
  void watch();
}
