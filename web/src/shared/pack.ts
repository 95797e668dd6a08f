// Bytes in a page, as sightline/page_text.py writes them, and deflate.

/** Symbols of seven bits that stand together with the next one as one character from U+0080 on. */
const HARD = [0x00, 0x08, 0x0b, 0x0c, 0x0d, 0x0e, 0x0f, 0x1a, 0x1b, 0x26, 0x3c, 0x3e, 0x7f];
const FIRST = 0x80, LONE = FIRST + 128 * HARD.length;

export function bytesOf(text: string): Uint8Array<ArrayBuffer> {
  const n = text.length, bytes = new Uint8Array(Math.ceil((n * 14) / 8));
  let at = 0, held = 0, bits = 0, symbols = 0;
  const put = (symbol: number) => {
    held = (held << 7) | symbol;
    bits += 7;
    symbols++;
    if (bits < 8) return;
    bits -= 8;
    bytes[at++] = held >> bits;
    held &= 0x7f;
  };
  for (let i = 0; i < n; i++) {
    const character = text.charCodeAt(i);
    if (character < FIRST) put(character);
    else if (character < LONE) {
      put(HARD[(character - FIRST) >> 7]!);
      put(character & 0x7f);
    } else put(HARD[character - LONE]!);
  }
  return bytes.subarray(0, (symbols * 7) >> 3);
}

export function inflate(packed: Uint8Array<ArrayBuffer>): Response {
  return new Response(new Blob([packed]).stream().pipeThrough(new DecompressionStream("deflate")));
}

export async function unpackJson<T>(text: string): Promise<T> {
  return (await inflate(bytesOf(text)).json()) as T;
}
