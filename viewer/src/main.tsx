// SPDX-License-Identifier: Apache-2.0
//
// Entry point: selects the data source, renders the page, and loads the scene. See session.ts for
// the open documents and views/app.tsx for the page.
import { render } from "preact";
import { EmbeddedSource } from "./api/embedded_source.ts";
import { HttpSource } from "./api/http_source.ts";
import { listenToKeys } from "./keys.ts";
import { watch } from "./live.ts";
import { followSelection } from "./selection_details.ts";
import { scene, start } from "./session.ts";
import { view } from "./state.ts";
import "./style/page.css";
import "./style/views.css";
import { followTheme } from "./theme.ts";
import { syncWithUrl } from "./url.ts";
import { App } from "./views/app.tsx";

const isFirstVisit = location.hash === "";
syncWithUrl();
followTheme();
followSelection();
listenToKeys();
render(<App />, document.getElementById("app")!);
await start(EmbeddedSource.find(document) ?? new HttpSource(new URL(".", location.href).href));
if (scene.value?.live) {
  if (isFirstVisit) view.value = "live";
  void watch();
}
