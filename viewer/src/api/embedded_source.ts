// SPDX-License-Identifier: Apache-2.0
//
// Responses embedded in the page by `ashlar view FILE -o report.html`: an index of paths, and the
// bytes in base64, each response compressed separately.
import { RequestError, type Source } from "./source.ts";

export type ResponseIndex = Record<string, [begin: number, bytes: number]>;

export class EmbeddedSource implements Source {
  readonly kind = "file";

  constructor(
    private readonly index: ResponseIndex,
    private readonly packed: Uint8Array,
  ) {}

  // Returns the source embedded in this page, or null if the page was served.
  static find(page: Document): EmbeddedSource | null {
    const index = page.getElementById("ashlar-index");
    const responses = page.getElementById("ashlar-responses");
    if (!index || !responses) return null;
    const packed = decodeBase64(responses.textContent ?? "");
    responses.textContent = ""; // free the base64 text
    return new EmbeddedSource(JSON.parse(index.textContent ?? "{}") as ResponseIndex, packed);
  }

  has(path: string): boolean {
    return Object.hasOwn(this.index, path);
  }

  async get(path: string): Promise<ArrayBuffer> {
    if (!this.has(path)) {
      throw new RequestError(
        "This file does not contain that data. Run `ashlar view` on the snapshot.",
      );
    }
    const [begin, bytes] = this.index[path];
    if (begin + bytes > this.packed.length) throw new RequestError("This file is truncated.");
    const packed = this.packed.slice(begin, begin + bytes);
    const unpacked = new Blob([packed]).stream().pipeThrough(new DecompressionStream("deflate"));
    return new Response(unpacked).arrayBuffer();
  }

  async open(): Promise<void> {
    throw new RequestError(
      "A self-contained file cannot open others. Run `ashlar view FILE` instead.",
    );
  }

  async takeSnapshot(): Promise<void> {
    throw new RequestError("A self-contained file cannot monitor a process.");
  }
}

function decodeBase64(text: string): Uint8Array {
  const characters = atob(text.trim());
  const bytes = new Uint8Array(characters.length);
  for (let i = 0; i < characters.length; ++i) bytes[i] = characters.charCodeAt(i);
  return bytes;
}
