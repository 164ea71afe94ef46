// SPDX-License-Identifier: Apache-2.0
//
// Answers from `ashlar view`, below the address of the page itself: the token in that address is
// what lets us ask, and nothing else is ever asked.
import { Gone, parseJson, Refused, type Source, StillLoading } from "./source.ts";

export class HttpSource implements Source {
  readonly kind = "server";

  constructor(private readonly base: string) {}

  async get(question: string): Promise<ArrayBuffer> {
    return this.answer(await this.fetch(question));
  }

  async open(name: string, file: Blob): Promise<void> {
    const question = `open?name=${encodeURIComponent(name)}`;
    try {
      await this.answer(await this.fetch(question, { method: "POST", body: file }));
    } catch (failure) {
      // Taken, and being read: scene.json tells how far it is.
      if (!(failure instanceof StillLoading)) throw failure;
    }
  }

  async takeSnapshot(): Promise<void> {
    await this.answer(await this.fetch("live/snapshot", { method: "POST", body: "" }));
  }

  private async fetch(question: string, options?: RequestInit): Promise<Response> {
    try {
      return await fetch(new URL(question, this.base), options);
    } catch {
      throw new Refused(
        "ashlar view no longer answers. Start it again, and open the address that it prints.",
      );
    }
  }

  private async answer(response: Response): Promise<ArrayBuffer> {
    const bytes = await response.arrayBuffer();
    if (response.status === 200) return bytes;
    const said = tryJson(bytes);
    if (response.status === 202)
      throw new StillLoading(said.loading ?? "loading", said.done ?? null);
    const why = said.error ?? `the server answered ${response.status}`;
    throw response.status === 410 ? new Gone(why) : new Refused(why);
  }
}

function tryJson(bytes: ArrayBuffer): { loading?: string; done?: number | null; error?: string } {
  try {
    return parseJson(bytes);
  } catch {
    return {};
  }
}
