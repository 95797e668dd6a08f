// Bytes in a page, as sightline/core/page_text.py writes them, and deflate.

/** Characters that are no digits. */
const LEFT_OUT = [0x00, 0x08, 0x0b, 0x0c, 0x0d, 0x0e, 0x0f, 0x1a, 0x1b, 0x26, 0x3c, 0x7f];
const BASE = 128 - LEFT_OUT.length, BYTES = 6, CHARACTERS = 7;

const digits = new Uint8Array(128);
for (let character = 0, digit = 0; character < 128; character++) {
  if (!LEFT_OUT.includes(character)) digits[character] = digit++;
}

/** Seven digits are a number of 48 bits, of which missing ones at the end are the highest. */
export function bytesOf(text: string): Uint8Array<ArrayBuffer> {
  const groups = Math.ceil(text.length / CHARACTERS), bytes = new Uint8Array(groups * BYTES);
  for (let group = 0; group < groups; group++) {
    let number = 0;
    const from = group * CHARACTERS;
    for (let place = from; place < from + CHARACTERS; place++) {
      number = number * BASE + (place < text.length ? digits[text.charCodeAt(place)]! : BASE - 1);
    }
    const high = Math.floor(number / 0x1000000), low = number - high * 0x1000000, at = group * BYTES;
    bytes[at] = high >> 16;
    bytes[at + 1] = high >> 8;
    bytes[at + 2] = high;
    bytes[at + 3] = low >> 16;
    bytes[at + 4] = low >> 8;
    bytes[at + 5] = low;
  }
  return bytes.subarray(0, text.length - groups);
}

export function inflate(packed: Uint8Array<ArrayBuffer>): Response {
  return new Response(new Blob([packed]).stream().pipeThrough(new DecompressionStream("deflate")));
}

export async function unpackJson<T>(text: string): Promise<T> {
  return (await inflate(bytesOf(text)).json()) as T;
}
