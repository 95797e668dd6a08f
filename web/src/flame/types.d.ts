// d3-flame-graph ships no types: what is used of it, after its README.
declare module "d3-flame-graph" {
  export interface FrameNode<D> {
    data: D;
    id: number;
    depth: number;
    height: number;
    value: number;
    highlight?: boolean;
    parent: FrameNode<D> | null;
    children?: FrameNode<D>[];
  }
  export interface Chart<D> {
    (selection: unknown): Chart<D>;
    width(w: number): Chart<D>;
    cellHeight(h: number): Chart<D>;
    minFrameSize(px: number): Chart<D>;
    transitionDuration(ms: number): Chart<D>;
    inverted(yes: boolean): Chart<D>;
    sort(compare: (a: FrameNode<D>, b: FrameNode<D>) => number): Chart<D>;
    resetHeightOnZoom(yes: boolean): Chart<D>;
    getName(f: (d: FrameNode<D>) => string): Chart<D>;
    getValue(f: (d: D) => number): Chart<D>;
    setLabelHandler(f: (d: FrameNode<D>) => string): Chart<D>;
    setColorMapper(f: (d: FrameNode<D>, original: string) => string): Chart<D>;
    setSearchMatch(f: (d: FrameNode<D>, term: string) => boolean): Chart<D>;
    setSearchHandler(f: (found: FrameNode<D>[], sum: number, total: number) => void): Chart<D>;
    setDetailsHandler(f: (text: string | null) => void): Chart<D>;
    onClick(f: (d: FrameNode<D>) => void): Chart<D>;
    search(term: string): void;
    clear(): void;
    zoomTo(d: FrameNode<D>): void;
    resetZoom(): void;
    destroy(): void;
  }
  export default function flamegraph<D>(): Chart<D>;
}
