// SPDX-License-Identifier: Apache-2.0
//
// Answers packed into the page itself, as `ashlar view FILE -o report.html` writes it: an index
// from questions to places, and the bytes in base64, each answer compressed on its own.
import { Refused, type Source } from "./source.ts";

export type AnswerIndex = Record<string, [begin: number, bytes: number]>;

export class EmbeddedSource implements Source {
  readonly kind = "file";

  constructor(
    private readonly index: AnswerIndex,
    private readonly packed: Uint8Array,
  ) {}

  // The source in this page, or null where the page came from a server.
  static find(page: Document): EmbeddedSource | null {
    const index = page.getElementById("ashlar-index");
    const answers = page.getElementById("ashlar-answers");
    if (!index || !answers) return null;
    const packed = decodeBase64(answers.textContent ?? "");
    answers.textContent = ""; // The text is larger than the bytes, and nobody needs it again.
    return new EmbeddedSource(JSON.parse(index.textContent ?? "{}") as AnswerIndex, packed);
  }

  has(question: string): boolean {
    return Object.hasOwn(this.index, question);
  }

  async get(question: string): Promise<ArrayBuffer> {
    if (!this.has(question)) {
      throw new Refused(
        "This file does not hold that answer; `ashlar view` on the snapshot has it.",
      );
    }
    const [begin, bytes] = this.index[question];
    if (begin + bytes > this.packed.length) throw new Refused("This file is cut off.");
    const packed = this.packed.slice(begin, begin + bytes);
    const unpacked = new Blob([packed]).stream().pipeThrough(new DecompressionStream("deflate"));
    return new Response(unpacked).arrayBuffer();
  }

  async open(): Promise<void> {
    throw new Refused("A self-contained file cannot read others. Run `ashlar view FILE` instead.");
  }

  async takeSnapshot(): Promise<void> {
    throw new Refused("A self-contained file watches nobody.");
  }
}

function decodeBase64(text: string): Uint8Array {
  const characters = atob(text.trim());
  const bytes = new Uint8Array(characters.length);
  for (let i = 0; i < characters.length; ++i) bytes[i] = characters.charCodeAt(i);
  return bytes;
}
