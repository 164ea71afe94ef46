// SPDX-License-Identifier: Apache-2.0
//
// Sends requests to `ashlar view`, relative to the page's own URL, which contains the access token.
import { ProcessEnded, parseJson, RequestError, type Source, StillLoading } from "./source.ts";

export class HttpSource implements Source {
  readonly kind = "server";

  constructor(private readonly base: string) {}

  async get(path: string): Promise<ArrayBuffer> {
    return this.readBody(await this.fetch(path));
  }

  async open(name: string, file: Blob): Promise<void> {
    const path = `open?name=${encodeURIComponent(name)}`;
    try {
      await this.readBody(await this.fetch(path, { method: "POST", body: file }));
    } catch (failure) {
      // StillLoading means that the file was accepted and is being read; scene.json reports
      // progress.
      if (!(failure instanceof StillLoading)) throw failure;
    }
  }

  async takeSnapshot(): Promise<void> {
    await this.readBody(await this.fetch("live/snapshot", { method: "POST", body: "" }));
  }

  private async fetch(path: string, options?: RequestInit): Promise<Response> {
    try {
      return await fetch(new URL(path, this.base), options);
    } catch {
      throw new RequestError(
        "ashlar view does not respond. Restart it and open the address that it prints.",
      );
    }
  }

  private async readBody(response: Response): Promise<ArrayBuffer> {
    const bytes = await response.arrayBuffer();
    if (response.status === 200) return bytes;
    const body = tryJson(bytes);
    if (response.status === 202)
      throw new StillLoading(body.loading ?? "loading", body.done ?? null);
    const reason = body.error ?? `the server responded with status ${response.status}`;
    throw response.status === 410 ? new ProcessEnded(reason) : new RequestError(reason);
  }
}

function tryJson(bytes: ArrayBuffer): { loading?: string; done?: number | null; error?: string } {
  try {
    return parseJson(bytes);
  } catch {
    return {};
  }
}
