// A box for questions of one's own, answered by the server that the page came from.

import { h } from "../shared/dom";
import type { Block, SqlBlock } from "./data";
import { ask } from "./timeline/served";

export function sql(block: SqlBlock, draw: (blocks: Block[]) => HTMLElement[]): HTMLElement {
  const text = h("textarea", { rows: 5, spellcheck: "false", "aria-label": "SQL query", class: "query" });
  text.value = block.examples[0] ?? "SELECT 1";
  const answer = h("div", { class: "answer", role: "status" });
  const run = h("button", { type: "button", class: "primary" }, "Run");
  let latest = 0;
  run.onclick = async () => {
    const own = ++latest;
    answer.replaceChildren(h("p", { class: "note" }, "Running …"));
    try {
      const found = (await (await ask("sql", { q: text.value })).json()) as { blocks: Block[] };
      if (own === latest) answer.replaceChildren(...draw(found.blocks));
    } catch (error) {
      if (own === latest) answer.replaceChildren(h("pre", { class: "problem" }, error instanceof Error ? error.message : String(error)));
    }
  };
  text.onkeydown = (event) => { if (event.key === "Enter" && (event.ctrlKey || event.metaKey)) { event.preventDefault(); run.click(); } };
  const examples = block.examples.map((query) => {
    const button = h("button", { type: "button", class: "small", title: query }, /FROM (\w+)/.exec(query)?.[1] ?? "example");
    button.onclick = () => { text.value = query; run.click(); };
    return button;
  });
  const tables = h("details", {}, h("summary", {}, `${block.tables.length} tables and their columns`),
    ...block.tables.map((table) => h("details", { class: "columns" }, h("summary", {}, h("code", {}, table.name), ` ${table.doc}`),
      h("ul", {}, ...table.columns.map(([name, doc]) => h("li", {}, h("code", {}, name), ` ${doc}`))))));
  return h("section", { class: "sql" },
    h("p", { class: "note" }, "DuckDB SQL over the tables of the run, read-only. Ctrl+Enter runs the query. Times are in ns."),
    text, h("div", { class: "buttons" }, run, h("span", { class: "note" }, "Examples:"), ...examples), tables, answer);
}
