// SPDX-License-Identifier: Apache-2.0
//
// Test pages whose requests and errors are checked.
import type { Browser, Page } from "playwright-core";
import { afterAll, afterEach, beforeAll, beforeEach, expect } from "vitest";
import { openPage, serve, type Served, startBrowser, stopAll, type Watched } from "./served.ts";

// Serves these files for all tests of a file. Each test gets a new page, which must log no errors
// and send requests to the server only.
export function watchPages(files: string[]): { readonly page: Page; readonly address: string } {
  let browser: Browser;
  let served: Served;
  let watched: Watched;
  beforeAll(async () => {
    browser = await startBrowser();
    served = await serve(files);
  });
  afterAll(async () => {
    stopAll();
    await browser?.close();
  });
  beforeEach(async () => {
    watched = await openPage(browser);
  });
  afterEach(async () => {
    expect(watched.errors).toEqual([]);
    const { origin } = new URL(served.address);
    const isOurs = (url: string) => url.startsWith(origin) || url.startsWith("data:");
    expect(watched.requests.filter((url) => !isOurs(url))).toEqual([]);
    await watched.page.close();
  });
  return {
    get page() {
      return watched.page;
    },
    get address() {
      return served.address;
    },
  };
}
