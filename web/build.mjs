// Builds every page: each folder of src/ that has a page.html.
import { existsSync, readdirSync } from "node:fs";
import { build } from "vite";

for (const page of readdirSync("src").filter((name) => existsSync(`src/${name}/page.html`))) {
  process.env.PAGE = page;
  await build({ logLevel: "warn", configFile: `./vite.config.mjs` });
}
