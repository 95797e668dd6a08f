// Base64 and deflate, as the exporters write them.

interface FromBase64 { fromBase64?: (text: string) => Uint8Array<ArrayBuffer> }

export function bytesOf(base64: string): Uint8Array<ArrayBuffer> {
  const text = base64.trim();
  const builtIn = (Uint8Array as unknown as FromBase64).fromBase64;
  if (builtIn) return builtIn.call(Uint8Array, text);
  const binary = atob(text);
  const bytes = new Uint8Array(binary.length);
  for (let i = 0; i < binary.length; i++) bytes[i] = binary.charCodeAt(i);
  return bytes;
}

export function inflate(packed: Uint8Array<ArrayBuffer>): Response {
  return new Response(new Blob([packed]).stream().pipeThrough(new DecompressionStream("deflate")));
}

export async function unpackJson<T>(base64: string): Promise<T> {
  return (await inflate(bytesOf(base64)).json()) as T;
}
