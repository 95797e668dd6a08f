// Colours of CPU frames by what they are: modules, and Python functions by their file, of which the
// most frequent have a colour each. Other classes have the colour of their class.

export const MODULE = 14, FILES = 15, MOST_FILES = 7;
const PYTHON = 8;
/** Classes up to this one are those of a device's operations; `OTHER` is what no class fits. */
export const LAST_OF_DEVICE = 3, OTHER = 10;

export interface Looks { of: Uint8Array; files: string[] }

const known = new WeakMap<string[], Looks>();

/** By name: a place among the theme's fills, or 0 for that of the class. Names come most frequent first. */
export function looksOf(names: string[]): Looks {
  let found = known.get(names);
  if (!found) known.set(names, (found = assign(names)));
  return found;
}

/** An event's place among the theme's fills. */
export function fillOf(looks: Looks, cls: number, name: number): number {
  return cls === PYTHON ? looks.of[name] || PYTHON : cls;
}

function assign(names: string[]): Looks {
  const files: string[] = [];
  const of = Uint8Array.from(names, (name) => {
    if (name.startsWith("nn.Module: ")) return MODULE;
    const file = /^(.*?)\(\d+\): /.exec(name)?.[1];
    if (file === undefined) return 0;
    let place = files.indexOf(file);
    if (place < 0 && files.length < MOST_FILES) place = files.push(file) - 1;
    return FILES + (place < 0 ? MOST_FILES : place);
  });
  return { of, files };
}
